//! The kernel types that the programs name, out of more than 100,000. The loader creates an object
//! per type and searches all of them for each name, so the needed ones are extracted first.

use std::collections::{HashMap, HashSet};

use aya::{Btf, Endianness};

/// BTF kind numbers.
mod kind {
    pub(super) const INT: u32 = 1;
    pub(super) const POINTER: u32 = 2;
    pub(super) const ARRAY: u32 = 3;
    pub(super) const STRUCT: u32 = 4;
    pub(super) const UNION: u32 = 5;
    pub(super) const ENUM: u32 = 6;
    pub(super) const FORWARD: u32 = 7;
    pub(super) const TYPEDEF: u32 = 8;
    pub(super) const VOLATILE: u32 = 9;
    pub(super) const CONST: u32 = 10;
    pub(super) const RESTRICT: u32 = 11;
    pub(super) const FUNCTION: u32 = 12;
    pub(super) const PROTOTYPE: u32 = 13;
    pub(super) const VARIABLE: u32 = 14;
    pub(super) const SECTION: u32 = 15;
    pub(super) const FLOAT: u32 = 16;
    pub(super) const DECLARATION_TAG: u32 = 17;
    pub(super) const TYPE_TAG: u32 = 18;
    pub(super) const ENUM64: u32 = 19;
}

const HEADER_BYTES: usize = 24;
const MAGIC: u32 = 0x0001_eb9f;
/// Words at the head of each type: its name, its kind with the number of its parts, its size or
/// type.
const HEAD: usize = 3;

/// Prefix of the type name of a tracepoint's function.
const TRACEPOINT: &[u8] = b"btf_trace_";
const CAST: &[u8] = b"bpf_rdonly_cast\0";

/// The types that the programs need.
pub(crate) struct Types {
    /// Types that the programs name, renumbered; used for field offsets.
    pub(crate) named: Btf,
    /// Types of the tracepoints, under their kernel numbers.
    pub(crate) tracepoints: Btf,
    /// Kernel numbers of named structures and tracepoints.
    numbers: HashMap<Vec<u8>, u32>,
    /// Number of the kernel's `bpf_rdonly_cast`; Linux has it since 6.2.
    pub(crate) cast: Option<u32>,
}

impl Types {
    /// Extracts the types that the programs need from the kernel's types and a module's, whose
    /// numbers follow the kernel's. All inputs are BTF.
    ///
    /// # Errors
    /// The reason, as text, if an input is not BTF.
    pub(crate) fn pick(kernel: &[u8], module: &[u8], programs: &[u8]) -> Result<Types, String> {
        let programs = Table::read(programs)?;
        let names: HashSet<&[u8]> = (1..programs.end())
            .filter(|id| is_with_parts(programs.kind(*id)))
            .map(|id| without_flavour(programs.name(id)))
            .collect();
        let mut kernel = Table::read(kernel)?;
        let of_module = kernel.end();
        if !module.is_empty() {
            kernel.append(Table::read(module)?);
        }
        let (mut roots, mut tracepoints) = (Vec::new(), Vec::new());
        let mut numbers = HashMap::new();
        let mut cast = None;
        for id in 1..kernel.end() {
            match kernel.kind(id) {
                kind::FUNCTION if kernel.text(id).starts_with(CAST) => cast = Some(id),
                kind::TYPEDEF if kernel.text(id).starts_with(TRACEPOINT) => {
                    numbers.insert(kernel.name(id).to_vec(), id);
                    tracepoints.push(id);
                }
                // A module may have its own types under names of the kernel's.
                _ if id >= of_module && numbers.contains_key(kernel.name(id)) => {}
                of if is_with_parts(of) && names.contains(kernel.name(id)) => {
                    if of == kind::STRUCT {
                        numbers.entry(kernel.name(id).to_vec()).or_insert(id);
                    }
                    roots.push(id);
                }
                _ => {}
            }
        }
        let named = kernel.with_parts(&roots);
        let tracepoints = kernel.at_their_places(&tracepoints);
        Ok(Types { named: parsed(&named)?, tracepoints: parsed(&tracepoints)?, numbers, cast })
    }

    /// Whether the kernel has this tracepoint.
    pub(crate) fn has(&self, tracepoint: &str) -> bool {
        self.numbers.contains_key(&[TRACEPOINT, tracepoint.as_bytes()].concat())
    }

    /// The kernel number of a structure named by the programs; 0 if the kernel does not have it.
    pub(crate) fn number(&self, structure: &str) -> u32 {
        self.numbers.get(structure.as_bytes()).copied().unwrap_or(0)
    }
}

fn parsed(types: &[u8]) -> Result<Btf, String> {
    Btf::parse(types, Endianness::default()).map_err(|error| crate::chain(&error))
}

fn is_with_parts(kind: u32) -> bool {
    matches!(kind, kind::STRUCT | kind::UNION | kind::ENUM | kind::ENUM64)
}

/// The name without its flavour: `task_struct___old` is a variant of `task_struct`.
fn without_flavour(name: &[u8]) -> &[u8] {
    let flavour = name.windows(3).position(|three| three == b"___");
    flavour.map_or(name, |at| &name[..at])
}

/// BTF types in memory.
struct Table {
    words: Vec<u32>,
    strings: Vec<u8>,
    /// Index of each type's first word; that of number 0 is unused.
    begins: Vec<usize>,
}

impl Table {
    fn read(bytes: &[u8]) -> Result<Table, String> {
        let words_of = |bytes: &[u8]| -> Vec<u32> {
            bytes.as_chunks().0.iter().map(|word| u32::from_ne_bytes(*word)).collect()
        };
        let what = || "they are in a form that is not known".to_owned();
        let header = words_of(bytes.get(..HEADER_BYTES).ok_or_else(what)?);
        if header[0] & 0x00ff_ffff != MAGIC {
            return Err(what());
        }
        let section = |at: usize| {
            let begin = (header[1] + header[at]) as usize;
            bytes.get(begin..begin + header[at + 1] as usize)
        };
        let words = words_of(section(2).ok_or_else(what)?);
        let strings = section(4).ok_or_else(what)?.to_vec();
        let mut begins = vec![0];
        let mut at = 0;
        while at < words.len() {
            let info = *words.get(at + 1).ok_or_else(what)?;
            begins.push(at);
            at += HEAD + parts(info).ok_or_else(what)?;
        }
        Ok(Table { words, strings, begins })
    }

    fn append(&mut self, more: Table) {
        let begin = self.words.len();
        self.begins.extend(more.begins.iter().skip(1).map(|at| begin + at));
        self.words.extend(more.words);
        self.strings.extend(more.strings);
    }

    fn end(&self) -> u32 {
        self.begins.len() as u32
    }

    fn words(&self, id: u32) -> &[u32] {
        let begin = self.begins[id as usize];
        let end = HEAD + parts(self.words[begin + 1]).unwrap_or(0);
        &self.words[begin..begin + end]
    }

    fn kind(&self, id: u32) -> u32 {
        self.words[self.begins[id as usize] + 1] >> 24 & 31
    }

    /// The string from the type's name on.
    fn text(&self, id: u32) -> &[u8] {
        self.string(self.words[self.begins[id as usize]])
    }

    fn name(&self, id: u32) -> &[u8] {
        self.text(id).split(|byte| *byte == 0).next().unwrap_or_default()
    }

    fn string(&self, at: u32) -> &[u8] {
        self.strings.get(at as usize..).unwrap_or_default()
    }

    /// These types and all their parts, renumbered. Pointers are not followed.
    fn with_parts(&self, roots: &[u32]) -> Vec<u8> {
        let mut picked = Picked::default();
        for root in roots {
            picked.number(*root);
        }
        let mut at = 0;
        while let Some(&id) = picked.order.get(at) {
            let mut words = self.words(id).to_vec();
            let kind = self.kind(id);
            words[0] = picked.string(self.string(words[0]));
            match kind {
                kind::TYPEDEF | kind::VOLATILE | kind::CONST | kind::RESTRICT | kind::TYPE_TAG => {
                    words[2] = picked.number(words[2])
                }
                kind::ARRAY => {
                    words[3] = picked.number(words[3]);
                    words[4] = 0;
                }
                kind::STRUCT | kind::UNION => {
                    for [name, part, _] in words[HEAD..].as_chunks_mut().0 {
                        *name = picked.string(self.string(*name));
                        *part = picked.number(*part);
                    }
                }
                kind::ENUM | kind::ENUM64 => {
                    let length = if kind == kind::ENUM { 2 } else { 3 };
                    for value in words[HEAD..].chunks_exact_mut(length) {
                        value[0] = picked.string(self.string(value[0]));
                    }
                }
                kind::INT | kind::FLOAT | kind::FORWARD => {}
                _ => words = vec![0, kind::POINTER << 24, 0],
            }
            picked.words.extend(words);
            at += 1;
        }
        picked.written()
    }

    /// These types under their original numbers; the numbers between are filled with placeholder
    /// types.
    fn at_their_places(&self, ids: &[u32]) -> Vec<u8> {
        let mut picked = Picked::default();
        let mut next = 1;
        for id in ids {
            picked.words.extend((next..*id).flat_map(|_| [0, kind::POINTER << 24, 0]));
            let name = picked.string(self.text(*id));
            picked.words.extend([name, kind::TYPEDEF << 24, 0]);
            next = id + 1;
        }
        picked.written()
    }
}

/// Number of words of a type's parts, from its kind and the number of parts.
fn parts(info: u32) -> Option<usize> {
    let count = (info & 0xffff) as usize;
    Some(match info >> 24 & 31 {
        kind::INT | kind::VARIABLE | kind::DECLARATION_TAG => 1,
        kind::ARRAY => 3,
        kind::STRUCT | kind::UNION | kind::SECTION | kind::ENUM64 => 3 * count,
        kind::ENUM | kind::PROTOTYPE => 2 * count,
        kind::POINTER..=kind::TYPE_TAG => 0,
        _ => return None,
    })
}

/// Types being written.
#[derive(Default)]
struct Picked {
    words: Vec<u32>,
    strings: Vec<u8>,
    numbers: HashMap<u32, u32>,
    order: Vec<u32>,
}

impl Picked {
    /// The new number of a type, which is queued to be written.
    fn number(&mut self, id: u32) -> u32 {
        if id == 0 {
            return 0;
        }
        let order = &mut self.order;
        *self.numbers.entry(id).or_insert_with(|| {
            order.push(id);
            order.len() as u32
        })
    }

    fn string(&mut self, text: &[u8]) -> u32 {
        let name = text.split_inclusive(|byte| *byte == 0).next().unwrap_or_default();
        if name.len() < 2 {
            return 0;
        }
        // The first string is empty.
        let at = self.strings.len() as u32 + 1;
        self.strings.extend(name);
        at
    }

    fn written(&self) -> Vec<u8> {
        let (types, strings) = (self.words.len() as u32 * 4, self.strings.len() as u32 + 1);
        let header = [MAGIC, HEADER_BYTES as u32, 0, types, types, strings];
        let words = header.iter().chain(&self.words).flat_map(|word| word.to_ne_bytes());
        words.chain([0]).chain(self.strings.iter().copied()).collect()
    }
}

#[cfg(test)]
mod tests {
    use aya_obj::btf::BtfKind;

    use super::*;

    /// `struct a { int x; struct b *behind; struct b within; }`, and others.
    fn table() -> Vec<u8> {
        let mut types = Picked::default();
        let [int, a, b, x, within] =
            [&b"int\0"[..], b"a\0", b"b\0", b"x\0", b"within\0"].map(|name| types.string(name));
        let trace = types.string(b"btf_trace_block_io_start\0");
        let cast = types.string(CAST);
        types.words.extend([int, kind::INT << 24, 4, 32]);
        types.words.extend([b, kind::STRUCT << 24 | 1, 4, x, 1, 0]);
        types.words.extend([0, kind::POINTER << 24, 2]);
        types.words.extend([0, kind::PROTOTYPE << 24 | 1, 0, x, 1]);
        types.words.extend([trace, kind::TYPEDEF << 24, 3]);
        types.words.extend([a, kind::STRUCT << 24 | 3, 16]);
        types.words.extend([x, 1, 0, within, 2, 32, within, 3, 64]);
        types.words.extend([cast, kind::FUNCTION << 24, 4]);
        types.written()
    }

    #[test]
    fn what_is_named_is_picked_with_its_parts() {
        let mut programs = Picked::default();
        let name = programs.string(b"a___old\0");
        programs.words.extend([name, kind::STRUCT << 24, 0]);
        let types = Types::pick(&table(), &[], &programs.written()).unwrap();
        assert_eq!((types.number("a"), types.number("b"), types.cast), (6, 0, Some(7)));
        assert!(types.has("block_io_start") && !types.has("block_rq_insert"));
        let id = |name, kind| types.tracepoints.id_by_type_name_kind(name, kind).ok();
        assert_eq!(id("btf_trace_block_io_start", BtfKind::Typedef), Some(5));
        let id = |name, kind| types.named.id_by_type_name_kind(name, kind).ok();
        assert_eq!(id("a", BtfKind::Struct), Some(1));
        assert_eq!((id("int", BtfKind::Int), id("b", BtfKind::Struct)), (Some(2), Some(3)));
    }

    #[test]
    fn types_of_a_module_go_on_with_the_numbers_and_strings_of_the_kernel() {
        let kernel = table();
        let of_kernel = Table::read(&kernel).unwrap();
        let (types, strings) = (of_kernel.end(), of_kernel.strings.len() as u32);
        let mut module = Picked::default();
        let names = [&b"io\0"[..], b"member\0", b"a\0"].map(|name| module.string(name) + strings);
        let [io, member, a] = names;
        // The second has the name of a kernel structure, and must not replace it.
        module.words.extend([io, kind::STRUCT << 24 | 1, 8, member, 2, 32]);
        module.words.extend([a, kind::STRUCT << 24, 0]);
        let mut programs = Picked::default();
        for name in [&b"io\0"[..], b"a\0"] {
            let name = programs.string(name);
            programs.words.extend([name, kind::STRUCT << 24, 0]);
        }
        let types_of = |module: &[u8]| Types::pick(&kernel, module, &programs.written()).unwrap();
        let found = types_of(&module.written());
        assert_eq!((found.number("io"), found.number("a")), (types, 6));
        let id = |name| found.named.id_by_type_name_kind(name, BtfKind::Struct).ok();
        assert!(id("io").is_some() && id("b").is_some());
        assert_eq!(types_of(&[]).number("io"), 0);
    }

    #[test]
    fn fields_are_found_as_among_all_types() {
        let Ok(all) = Btf::from_sys_fs() else {
            iosonde_rig::skip("this kernel does not show its types");
            return;
        };
        let types = crate::types().unwrap();
        let located = |types: &Btf| {
            let mut object = aya_obj::Object::parse(crate::OBJECT).unwrap();
            object.relocate_btf(types).unwrap();
            let functions = object.functions.into_values();
            functions.map(|function| format!("{:?}", function.instructions)).collect::<Vec<_>>()
        };
        assert_eq!(located(&types.named), located(&all));
        for tracepoint in ["block_rq_issue", "sched_process_fork", "sys_enter"] {
            let name = format!("btf_trace_{tracepoint}");
            let id = |types: &Btf| types.id_by_type_name_kind(&name, BtfKind::Typedef).unwrap();
            assert_eq!(id(&types.tracepoints), id(&all));
        }
        assert_eq!(
            types.number("inode"),
            all.id_by_type_name_kind("inode", BtfKind::Struct).unwrap()
        );
    }

    #[test]
    fn what_is_no_table_of_types_is_refused() {
        assert!(Types::pick(&[0; 64], &[], &table()).is_err());
        let whole = table();
        assert!(Types::pick(&whole[..whole.len() - 30], &[], &table()).is_err());
        assert!(Types::pick(&whole[..10], &[], &table()).is_err());
    }
}
