#!/usr/bin/env bash
# apache-arrow 21.2.0: a value of a column of decimals with two digits behind the point is its whole number: 1.23 reads
# 123, as a text and as a number. The scale is only at the type, and whoever shows a value has to divide.
# Guess: 1.23.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact apache-arrow@21.2.0
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Decimal, vectorFromArray } from "apache-arrow";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`apache-arrow ${versionOf("apache-arrow")}, Node ${process.version}`);
const prices = vectorFromArray([new Uint32Array([123, 0, 0, 0])], new Decimal(2, 10));
const [text, number] = [String(prices.get(0)), Number(prices.get(0))];
console.log("guess: 1.23");
console.log(`seen:  ${text} as a text, ${number} as a number, of a type with scale ${prices.type.scale}`);
process.exit(text === "123" && prices.type.scale === 2 ? 0 : 1);
JS
node look.mjs
