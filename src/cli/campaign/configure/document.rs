//! A campaign file as a document that preserves comments and order.

use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, Value, value};

use iosonde_model::spec::campaign::{Campaign, Requested, check};

/// Place of a value in the file.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Place {
    /// Key at the top level.
    Top(&'static str),
    /// Key in `[stop]`.
    Stop(&'static str),
    /// Key in the device with this index.
    Device(usize, &'static str),
    /// Key in the experiment with this index.
    Experiment(usize, &'static str),
}

/// A campaign file.
#[derive(Clone, Debug)]
pub(crate) struct Document(DocumentMut);

impl Document {
    /// Parses a file, which may be incomplete.
    pub(crate) fn parse(text: &str) -> Result<Document, String> {
        text.parse().map(Document).map_err(|error: toml_edit::TomlError| error.to_string())
    }

    pub(crate) fn text(&self) -> String {
        self.0.to_string()
    }

    /// The campaign, which may lack devices.
    pub(super) fn campaign(&self) -> Result<Campaign, String> {
        let mut text = self.text();
        if self.count("device") == 0 {
            text = format!("{text}\n[[device]]\nname = \"none\"\npath = \"none\"\n");
        }
        let mut campaign: Campaign =
            toml::from_str(&text).map_err(|error| error.message().to_owned())?;
        if self.count("device") == 0 {
            campaign.devices.clear();
        }
        Ok(campaign)
    }

    /// Checks that the campaign is complete and consistent.
    pub(super) fn check(&self) -> Result<(), String> {
        self.campaign().and_then(|campaign| check(&campaign).map_err(|error| error.to_string()))
    }

    /// Number of entries in a list of tables.
    pub(super) fn count(&self, list: &str) -> usize {
        self.0.get(list).and_then(Item::as_array_of_tables).map_or(0, ArrayOfTables::len)
    }

    /// Names of the experiments, in order; empty for one without a name.
    pub(super) fn experiments(&self) -> Vec<String> {
        let name = |number| self.get(Place::Experiment(number, "name")).unwrap_or_default();
        (0..self.count("experiment")).map(name).collect()
    }

    fn table(&self, place: Place) -> Option<(&Table, &'static str)> {
        let entry = |list: &str, number: usize| self.0.get(list)?.as_array_of_tables()?.get(number);
        Some(match place {
            Place::Top(key) => (self.0.as_table(), key),
            Place::Stop(key) => (self.0.get("stop")?.as_table()?, key),
            Place::Device(number, key) => (entry("device", number)?, key),
            Place::Experiment(number, key) => (entry("experiment", number)?, key),
        })
    }

    /// Value as text; `None` if it is not set.
    pub(super) fn get(&self, place: Place) -> Option<String> {
        let (table, key) = self.table(place)?;
        Some(match table.get(key)?.as_value()? {
            Value::String(text) => text.value().clone(),
            Value::Boolean(truth) => truth.value().to_string(),
            Value::Integer(number) => number.value().to_string(),
            other => other.to_string().trim().to_owned(),
        })
    }

    /// Sets a value, or removes it.
    pub(super) fn put(&mut self, place: Place, new: Option<Value>) {
        let (list, number, key) = match place {
            Place::Top(key) => return set(self.0.as_table_mut(), key, new),
            Place::Stop(key) => {
                let stop = self.0.entry("stop").or_insert(Item::Table(Table::new()));
                if let Some(table) = stop.as_table_mut() {
                    set(table, key, new);
                }
                return;
            }
            Place::Device(number, key) => ("device", number, key),
            Place::Experiment(number, key) => ("experiment", number, key),
        };
        let list = self.0.get_mut(list).and_then(Item::as_array_of_tables_mut);
        if let Some(table) = list.and_then(|list| list.get_mut(number)) {
            set(table, key, new);
        }
    }

    /// Adds an entry to a list of tables.
    pub(super) fn add(&mut self, list: &str, name: &str) -> usize {
        let mut table = Table::new();
        table["name"] = value(name);
        let list = self.0.entry(list).or_insert(Item::ArrayOfTables(ArrayOfTables::new()));
        let Some(list) = list.as_array_of_tables_mut() else { return 0 };
        list.push(table);
        list.len() - 1
    }

    /// Removes an entry of a list of tables.
    pub(super) fn remove(&mut self, list: &str, number: usize) {
        let entries = self.0.get_mut(list).and_then(Item::as_array_of_tables_mut);
        if let Some(entries) = entries.filter(|entries| number < entries.len()) {
            entries.remove(number);
        }
    }

    /// Sets the value of a dotted key. A key addresses a list entry by index from 0 or by `name`.
    /// Text that is not a TOML value becomes a string.
    pub(crate) fn put_dotted(&mut self, key: &str, text: &str) -> Result<(), String> {
        let new = text.parse::<Value>().unwrap_or_else(|_| Value::from(text));
        let keys: Vec<&str> = key.split('.').collect();
        let (last, path) = keys.split_last().ok_or("it names nothing")?;
        let mut table: &mut dyn TableLike = self.0.as_table_mut();
        let mut path = path.iter();
        while let Some(key) = path.next() {
            let item = table.entry(key).or_insert(Item::Table(Table::new()));
            table = if item.is_array_of_tables() || item.is_array() {
                let which = path.next().ok_or_else(|| format!("`{key}` is a list"))?;
                entry(item, which).ok_or_else(|| format!("`{key}` has no entry `{which}`"))?
            } else {
                item.as_table_like_mut().ok_or_else(|| format!("`{key}` is not a table"))?
            };
        }
        set(table, last, Some(new));
        Ok(())
    }

    /// Copies everything but the devices from another file.
    pub(super) fn merge(&mut self, text: &str) -> Result<(), String> {
        let other: DocumentMut =
            text.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
        for (key, item) in other.iter().filter(|(key, _)| *key != "device") {
            self.0[key] = item.clone();
        }
        Ok(())
    }

    /// Replaces all experiments.
    pub(super) fn replace_experiments(&mut self, all: &[Requested]) {
        let mut list = ArrayOfTables::new();
        for each in all {
            let text = toml::to_string(each).unwrap_or_default();
            let parsed: DocumentMut = text.parse().unwrap_or_default();
            let mut table = parsed.as_table().clone();
            table.retain(|_, item| !is_usual(item));
            list.push(table);
        }
        self.0["experiment"] = Item::ArrayOfTables(list);
    }

    /// Sets the profiles to those of this campaign.
    pub(super) fn replace_profiles(&mut self, campaign: &Campaign) {
        let names = campaign.round_robin.iter().map(String::as_str);
        let names = (!campaign.round_robin.is_empty()).then(|| Value::from_iter(names));
        set(self.0.as_table_mut(), "round-robin", names);
        for (number, device) in campaign.devices.iter().enumerate() {
            let profile = device.profile.as_deref().map(Value::from);
            self.put(Place::Device(number, "profile"), profile);
        }
    }
}

/// Whether a value means the same as an absent one.
fn is_usual(item: &Item) -> bool {
    item.as_bool() == Some(false) || item.as_array().is_some_and(toml_edit::Array::is_empty)
}

/// Table with this index or name in a list.
fn entry<'a>(list: &'a mut Item, which: &str) -> Option<&'a mut dyn TableLike> {
    let named = |table: &dyn TableLike| table.get("name").and_then(Item::as_str) == Some(which);
    let number = which.parse().ok();
    if let Item::ArrayOfTables(tables) = list {
        let number = number.or_else(|| tables.iter().position(|table| named(table)))?;
        return Some(tables.get_mut(number)?);
    }
    let tables = list.as_array_mut()?;
    let is_named = |value: &Value| value.as_inline_table().is_some_and(|table| named(table));
    let number = number.or_else(|| tables.iter().position(is_named))?;
    Some(tables.get_mut(number)?.as_inline_table_mut()?)
}

fn set(table: &mut dyn TableLike, key: &str, new: Option<Value>) {
    match new {
        None => {
            table.remove(key);
        }
        Some(mut new) => {
            let item = table.entry(key).or_insert(Item::None);
            // Keeps the text around the old value, such as a comment.
            if let Some(old) = item.as_value() {
                *new.decor_mut() = old.decor().clone();
            }
            *item = Item::Value(new);
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "tests")]

    use super::*;

    const FILE: &str = "# why\nname = \"c\" # its name\n\n[[device]]\nname = \"a\" # left\n\
                        path = \"/dev/x\"\n[[experiment]]\nname = \"queue-depth\"\n";

    #[test]
    fn comments_stay_where_they_are() {
        let mut document = Document::parse(FILE).unwrap();
        document.put_dotted("device.a.size", "1g").unwrap();
        document.put_dotted("name", "d").unwrap();
        document.put_dotted("stop.missed", "true").unwrap();
        document.put(Place::Experiment(0, "quick"), Some(true.into()));
        let text = document.text();
        for part in ["# why", "name = \"d\" # its name", "# left", "size = \"1g\"", "quick = true"]
        {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(document.campaign().unwrap().stop.missed);
        assert!(document.put_dotted("device.b.size", "1g").unwrap_err().contains("no entry `b`"));
        assert!(document.put_dotted("name.x", "1").unwrap_err().contains("not a table"));
        document.put(Place::Experiment(0, "quick"), None);
        assert_eq!(document.get(Place::Experiment(0, "quick")), None);
    }

    #[test]
    fn tables_within_a_line_are_changed_like_others() {
        let line = "name = \"c\"\ndevice = [{ name = \"a\", path = \".\" }]\nstop = {}\n";
        let mut document = Document::parse(line).unwrap();
        document.put_dotted("device.a.size", "1g").unwrap();
        document.put_dotted("stop.missed", "true").unwrap();
        let text = document.text();
        assert!(text.contains("size = \"1g\" }]\nstop = { missed = true }"), "{text}");
        assert!(document.put_dotted("device.1.size", "1g").unwrap_err().contains("no entry `1`"));
    }

    #[test]
    fn a_preset_of_ones_own_leaves_the_devices() {
        let mut document = Document::parse(FILE).unwrap();
        document
            .merge("parallel = 2\n[[device]]\nname = \"z\"\n[[experiment]]\nname = \"jobs\"\n")
            .unwrap();
        let campaign = document.campaign().unwrap();
        assert_eq!(campaign.devices[0].name, "a");
        assert_eq!((campaign.parallel, campaign.experiments[0].name.as_str()), (Some(2), "jobs"));
    }
}
