//! The machine and the target, as names and values.

use iosonde_analysis::experiment::Study;
use iosonde_model::record::WriteAudit;
use iosonde_model::units::bytes;

/// What is known; what is not is left out.
pub(super) fn environment(study: &Study) -> Vec<(String, String)> {
    let mut all: Vec<(String, String)> = Vec::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            all.push((name.into(), value));
        }
    };
    add("target", Some(study.run.target.path.clone()));
    if let Some(target) = &study.target {
        add("kind", Some(target.kind.clone()));
        add("size", target.bytes.map(bytes::exact));
        add("file system", target.filesystem.clone());
        let direct = if target.direct { "yes" } else { "no: through the page cache" };
        add("direct I/O", Some(direct.into()));
        for (name, value) in target.write_audits.iter().flat_map(WriteAudit::lines) {
            add(&name, Some(value));
        }
        if let Some(device) = &target.device {
            add("device", Some(device.name.clone()));
            add("model", device.model.clone());
            add("firmware", device.firmware.clone());
            add("capacity", device.bytes.map(bytes::exact));
            add("scheduler", device.scheduler.clone());
            add("write cache", device.write_cache.clone());
        }
    }
    if let Some(host) = &study.host {
        let text = serde_json::to_value(host).unwrap_or_default();
        let facts = text.as_object().cloned().unwrap_or_default();
        for (name, value) in facts {
            let value = match value {
                serde_json::Value::String(text) => text,
                serde_json::Value::Number(number) => number.to_string(),
                serde_json::Value::Bool(truth) => truth.to_string(),
                _ => continue,
            };
            add(&name.replace('_', " "), Some(value));
        }
    }
    add("seed", Some(study.run.seed.to_string()));
    all
}
