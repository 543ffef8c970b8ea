#!/usr/bin/env bash
# json-rules-engine 7.3.1: with allowUndefinedFacts, `doesNotContain` does not hold for a fact that is not there, and so
# neither it nor `contains` does; `notIn` and `notEqual` do hold. A rule for players who do not have a badge leaves out
# those who have no list of badges yet.
# Guess: what is not there does not contain it: the condition holds.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact json-rules-engine@7.3.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Engine } from "json-rules-engine";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`json-rules-engine ${versionOf("json-rules-engine")}, Node ${process.version}`);
const holds = async (operator, value, facts) => {
  const engine = new Engine([], { allowUndefinedFacts: true });
  engine.addRule({ conditions: { all: [{ fact: "badges", operator, value }] }, event: { type: "held" } });
  return (await engine.run(facts)).events.length > 0;
};
const [without, notIn, empty] = [
  await holds("doesNotContain", "gold", {}),
  await holds("notIn", ["gold"], {}),
  await holds("doesNotContain", "gold", { badges: [] }),
];
console.log("guess: doesNotContain true, notIn true, of an empty list true");
console.log(`seen:  doesNotContain ${without}, notIn ${notIn}, of an empty list ${empty}`);
process.exit(!without && notIn && empty ? 0 : 1);
JS
node look.mjs
