//! `campaign configure`, by a script and by keys on a terminal.

use std::fs;

use super::program::Place;
use super::robot::Robot;

impl Robot {
    /// Searches for a row and moves to it.
    #[track_caller]
    fn goes_to(&mut self, row: &str) {
        self.types("/");
        self.sees("search:");
        self.types(row);
        self.sees(&format!("search: {row}_"));
        self.types("\u{1b}");
        self.sees("Enter/Space change");
        self.sees(&format!("┌ {row} "));
    }

    #[track_caller]
    fn sets(&mut self, row: &str, value: &str) {
        self.goes_to(row);
        self.types("\r");
        self.sees("type the value");
        self.types(&format!("{value}\r"));
        self.sees(&format!("{row} = {value}"));
    }

    #[track_caller]
    fn leaves(mut self) {
        self.types("q");
        assert_eq!(self.ends(), Some(0));
    }
}

#[test]
fn a_campaign_is_configured_saved_checked_and_run_from_the_menu() {
    let place = Place::new();
    place.hole("data", 16 << 20);
    let mut robot = Robot::start(&place, "campaign configure mine.toml");
    robot.sees("Enter/Space change");
    robot.goes_to("add a device");
    robot.types("\r");
    robot.sees("device-1");
    robot.sets("path", "data");
    robot.goes_to("buffered");
    robot.types(" ");
    robot.sees("[*] buffered");
    robot.goes_to("pts-iops-core");
    // The option's help, and the option on which it depends.
    robot.sees("Which IOPS does this storage give");
    robot.types(" ");
    robot.sees("[*] pts-iops-core");
    robot.goes_to("repeats");
    robot.types("\r");
    robot.sees("no effect here: all its stages run in rounds");
    robot.sets("rounds", "5");
    robot.sets("seconds", "60ms");
    robot.goes_to("purge");
    robot.types("\r");
    robot.sees("purge = any");
    robot.sees("warning: a purge destroys everything");
    robot.types("c");
    robot.sees("the file is complete");
    robot.types("q");
    robot.sees("unsaved changes");
    robot.types("s");
    robot.sees("saved mine.toml");
    robot.leaves();
    let text = fs::read_to_string(place.work().join("mine.toml")).unwrap();
    assert!(text.starts_with("# A campaign of iosonde"), "{text}");
    place.iosonde("campaign check mine.toml").end().exits(0).prints("0 of them would be refused");
    let ended = place.iosonde("campaign run mine.toml").end();
    // Such short runs on a busy machine may not be steady, or not complete.
    assert!([Some(0), Some(3), Some(7)].contains(&ended.code), "{}", ended.err);
    ended.prints("pts-iops-core");
    let events = place.iosonde("campaign report results").end();
    events.prints("campaign: complete");
}

#[test]
fn a_script_configures_without_a_terminal_and_comments_stay() {
    let place = Place::new();
    let words = "campaign configure c.toml";
    place.iosonde(words).end().exits(2).says("the menu needs a terminal");
    assert!(!place.work().join("c.toml").exists());
    place.file("c.toml", b"name = \"c\" # mine\n[[device]]\nname = \"a\" # left\npath = \".\"\n");
    let set = format!("{words} --preset all --set device.a.size=1g --set stop.missed=true");
    place.iosonde(&set).end().exits(0).says("saved c.toml");
    let text = fs::read_to_string(place.work().join("c.toml")).unwrap();
    for part in ["# mine", "# left", "size = \"1g\"", "missed = true", "\"pts-write-saturation\""] {
        assert!(text.contains(part), "{part}: {text}");
    }
    place.iosonde(&format!("{words} --preset quick")).end().exits(0);
    let text = fs::read_to_string(place.work().join("c.toml")).unwrap();
    assert_eq!(text.matches("quick = true").count(), 4, "{text}");
    // A user's own preset.
    fs::create_dir(place.work().join("presets")).unwrap();
    place.file("presets/night.toml", b"parallel = 2\n[[experiment]]\nname = \"queue-depth\"\n");
    let own = format!("{words} --presets presets --preset night");
    place.iosonde(&own).end().exits(0);
    let text = fs::read_to_string(place.work().join("c.toml")).unwrap();
    assert!(text.contains("queue-depth") && !text.contains("pts-"), "{text}");
    assert!(text.contains("# left"), "{text}");
    place.iosonde(&format!("{words} --preset nigt")).end().exits(2).says("found `nigt`");
    let before = fs::read(place.work().join("c.toml")).unwrap();
    let wrong = format!("{words} --set device.a.siz=1g");
    place.iosonde(&wrong).end().exits(2).says("unknown field `siz`");
    assert_eq!(fs::read(place.work().join("c.toml")).unwrap(), before, "nothing was saved");
}
