//! The JSON Schema of the methods, for programs that use the control socket or `sluice --json`.

use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::Method;

/// Makes the schema of methods: of each, its parameters and its answer.
#[must_use]
pub fn schema(methods: &[Method]) -> Value {
    let settings =
        || SchemaSettings::draft2020_12().with(|settings| settings.inline_subschemas = true);
    let mut params = SchemaGenerator::new(settings().for_deserialize());
    let mut answers = SchemaGenerator::new(settings().for_serialize());
    let method = |method: &Method| {
        let (params, result) = method.schemas(&mut params, &mut answers);
        let described = json!({
            "changes": method.changes(),
            "parameters": method.takes(),
            "answer": method.gives(),
            "params": params,
            "result": result,
        });
        (method.name().to_owned(), described)
    };
    let methods: Map<String, Value> = methods.iter().map(method).collect();
    json!({
        "title": "The methods of the control socket of sluiced",
        "description": "`params` and `result` are JSON Schemas (draft 2020-12) of a request's parameters and of the \
                        daemon's answer, which `sluice --json` prints. Later versions may add fields.",
        "methods": methods,
    })
}
