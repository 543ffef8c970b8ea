#!/usr/bin/env bash
# zod-openapi 6.0.2 with zod 4.6.7: a regular expression with a flag is described by its source alone. The server
# takes "Bob" for /^[a-z]+$/i and a text of two lines for /^.+$/s; the published pattern refuses both, and no error
# says that the flag cannot be expressed. Whoever validates by the document (generated clients, gateways, contract
# tests; here @cfworker/json-schema 4.1.6) refuses what the server takes, or its own answers.
# Guess: the pattern is rewritten to mean the same ([a-zA-Z]), or the document is refused.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact zod@4.6.7 zod-openapi@6.0.2 @cfworker/json-schema@4.1.6
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { validate } from "@cfworker/json-schema";
import { z } from "zod";
import { createDocument } from "zod-openapi";

const versionOf = (name) => `${name} ${JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version}`;
console.log(`${["zod", "zod-openapi", "@cfworker/json-schema"].map(versionOf).join(", ")}, Node ${process.version}`);
const published = (Schema) =>
  createDocument({
    openapi: "3.1.0",
    info: { title: "API", version: "1" },
    components: { schemas: { Schema } },
    paths: {},
  }).components.schemas.Schema;
const cases = [[/^[a-z]+$/i, "Bob"], [/^.+$/s, "one\ntwo"], [/^[a-z]+$/, "bob"]];
const seen = cases.map(([expression, text]) => {
  const schema = z.string().regex(expression);
  const document = published(schema);
  const answers = [schema.safeParse(text).success, validate(text, document, "2020-12").valid];
  console.log(`${expression} is published as ${document.pattern}`);
  console.log(`  ${JSON.stringify(text)}: guess true and true, seen zod ${answers[0]}, document ${answers[1]}`);
  return answers.join();
});
process.exit(seen.join(" ") === "true,false true,false true,true" ? 0 : 1);
JS
node look.mjs
