#!/usr/bin/env bash
# cel-js 0.8.2: the division of two whole numbers gives a fraction, where CEL (its specification, and the
# implementations in Go, C++ and Java) gives the whole number: 7 / 2 is 3. It also refuses `true || missing.field`,
# which is true in CEL, where an operand that decides forgives the error of the other one. Rules that were tried
# elsewhere answer differently here.
# Guess: 3, and true.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact cel-js@0.8.2
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { evaluate } from "cel-js";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`cel-js ${versionOf("cel-js")}, Node ${process.version}`);
const half = evaluate("7 / 2", {});
let either;
try {
  either = evaluate("true || player.level > 3", { player: {} });
} catch {
  either = "an error";
}
console.log("guess: 3, true");
console.log(`seen:  ${half}, ${either}`);
process.exit(half === 3.5 && either === "an error" ? 0 : 1);
JS
node look.mjs
