#!/usr/bin/env bash
# @colyseus/schema 5.0.34: push() of an ArraySchema stops at the first value that is undefined or null, says nothing,
# and leaves out everything behind it; it also returns undefined instead of the new length. So does the constructor.
# push(...players.map(find)) loses all players behind one who was not found.
# Guess: what is undefined is left out, the rest is there; or it throws, as set() of a MapSchema does.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @colyseus/schema@5.0.34
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { ArraySchema } from "@colyseus/schema";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@colyseus/schema ${versionOf("@colyseus/schema")}, Node ${process.version}`);
const pushed = new ArraySchema("ada");
const length = pushed.push("ben", undefined, "cleo", "dan");
const made = new ArraySchema("ada", undefined, "cleo");
console.log("guess: ada, ben, cleo, dan, length 4; or an error");
console.log(`seen:  ${[...pushed].join(", ")}, length ${length}; from the constructor: ${[...made].join(", ")}`);
process.exit([...pushed].join() === "ada,ben" && length === undefined && [...made].join() === "ada" ? 0 : 1);
JS
node look.mjs
