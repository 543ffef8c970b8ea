#!/usr/bin/env bash
# json-rules-engine 7.3.1: `doesNotContain` over a part of a list ($[*].id) is false for an empty list, since such a
# path yields undefined there instead of an empty list, and the operator is false for whatever is no list. The
# same operator without a path is true for []. "Has no sword" thus leaves out exactly the newcomers, who own nothing.
# `not` around `contains` does hold for them, so the two spellings of one condition differ.
# Guess: an empty list does not contain a sword, with and without a path.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact json-rules-engine@7.3.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import engine from "json-rules-engine";

const { version } = JSON.parse(readFileSync("node_modules/json-rules-engine/package.json", "utf8"));
console.log(`json-rules-engine ${version}, Node ${process.version}`);
const about = { fact: "items", value: "sword" };
const conditions = {
  "no path": { ...about, operator: "doesNotContain" },
  path: { ...about, path: "$[*].id", operator: "doesNotContain" },
  "path, not contains": { not: { ...about, path: "$[*].id", operator: "contains" } },
};
const rules = Object.entries(conditions).map(([type, condition]) => ({
  conditions: { all: [condition] },
  event: { type },
}));
const holding = async (items) => (await new engine.Engine(rules).run({ items })).events.map(({ type }) => type).sort();
const ofBow = await holding([{ id: "bow" }]);
const ofNothing = await holding([]);
console.log(`with a bow, these hold: ${ofBow.join("; ")}`);
console.log("guess: with nothing:    no path; path; path, not contains");
console.log(`seen:  with nothing:    ${ofNothing.join("; ")}`);
process.exit(ofBow.length === 3 && ofNothing.join("; ") === "no path; path, not contains" ? 0 : 1);
JS
node look.mjs
