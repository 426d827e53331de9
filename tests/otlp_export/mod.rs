//! An export by OTLP, decoded by the messages of the Python package `opentelemetry-proto`, for the tests of several packages.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::skipped::skipped;

/// Decodes an export with the Python package that `.ci/otlp-messages` installs; `None`, with a skipped test reported, if it is missing.
pub fn decoded(body: &[u8]) -> Option<Value> {
    const PROGRAM: &str = "import sys\n\
        from google.protobuf.json_format import MessageToJson\n\
        from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest as Request\n\
        print(MessageToJson(Request.FromString(open(sys.argv[1], 'rb').read())))\n";
    let packages = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("otlp-messages");
    if !packages.exists() {
        skipped("opentelemetry-proto");
        return None;
    }
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, body).unwrap();
    let output =
        Command::new("python3").args(["-c", PROGRAM]).arg(file.path()).env("PYTHONPATH", packages).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The metrics of an export by name.
pub fn metrics(export: &Value) -> BTreeMap<String, Value> {
    let scopes = export["resourceMetrics"][0]["scopeMetrics"].as_array().unwrap();
    let metrics = scopes.iter().flat_map(|scope| scope["metrics"].as_array().unwrap());
    metrics.map(|metric| (metric["name"].as_str().unwrap().to_owned(), metric.clone())).collect()
}

/// A number of 64 bits, which JSON of protobuf has as a string.
pub fn number(value: &Value) -> u64 {
    value.as_str().unwrap_or_else(|| panic!("{value}")).parse().unwrap()
}

/// The value of the point whose only attribute has this value, or of the first point.
pub fn point<'m>(metric: &'m Value, kind: &str, attribute: &str) -> &'m Value {
    let points = metric[kind]["dataPoints"].as_array().unwrap_or_else(|| panic!("no {kind}: {metric}"));
    let is_it = |point: &&Value| attribute.is_empty() || point["attributes"][0]["value"]["stringValue"] == attribute;
    points.iter().find(is_it).unwrap_or_else(|| panic!("{attribute}: {metric}"))
}
