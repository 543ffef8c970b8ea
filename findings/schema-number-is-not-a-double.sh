#!/usr/bin/env bash
# @colyseus/schema 5.0.34: a field t.number() with a fraction reaches clients as a float of 32 bits wherever that is
# "near enough" (within 0.0001), and Infinity as 2^53 - 1 and NaN as 0; so do lists and maps of "number". The server
# keeps what was set. Small fractions, prices and rates differ between server and client (=== and sums fail), and a
# "best time" that begins at Infinity is an ordinary number there. t.float64() is exact.
# Guess: "number" is JavaScript's number, so each value arrives as it was set.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @colyseus/schema@5.0.34
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { Decoder, Encoder, schema, t } from "@colyseus/schema";

const { version } = JSON.parse(readFileSync("node_modules/@colyseus/schema/package.json", "utf8"));
console.log(`@colyseus/schema ${version}, Node ${process.version}`);
const State = schema({ plain: t.number(), exact: t.float64(), list: t.array("number") }, "State");
const arrive = (value) => {
  const server = new State();
  const encoder = new Encoder(server);
  server.plain = value;
  server.exact = value;
  server.list.push(value);
  const client = new State();
  new Decoder(client).decode(encoder.encodeAll());
  return [client.plain, client.list[0], client.exact];
};
const values = [19.99, 0.00001, Infinity, NaN];
const seen = values.map((value) => {
  const [plain, inList, exact] = arrive(value);
  console.log(`guess: ${value} arrives as ${value}`);
  console.log(`seen:  number ${plain}, list of numbers ${inList}, float64 ${exact}`);
  return plain === inList && Object.is(exact, value) ? plain : "other";
});
const expected = [Math.fround(19.99), Math.fround(0.00001), 2 ** 53 - 1, 0];
const isSeen = seen.every((value, at) => Object.is(value, expected[at]));
process.exit(isSeen ? 0 : 1);
JS
node look.mjs
