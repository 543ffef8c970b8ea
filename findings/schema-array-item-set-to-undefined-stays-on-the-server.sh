#!/usr/bin/env bash
# @colyseus/schema 5.0.34: setting an item of an ArraySchema to undefined changes nothing on the server, whose array
# still shows the old value, but is sent as a removal: clients lose the item, and their later items move up. From then
# on both sides have other arrays.
# Guess: the item is gone on both sides, or stays on both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @colyseus/schema@5.0.34
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { ArraySchema, Decoder, Encoder, Reflection, schema, t } from "@colyseus/schema";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@colyseus/schema ${versionOf("@colyseus/schema")}, Node ${process.version}`);
const State = schema({ names: t.array("string") }, "State");
const state = new State();
state.names = new ArraySchema("ada", "ben", "cleo");
const encoder = new Encoder(state);
const decoder = new Decoder(Reflection.decode(Reflection.encode(encoder)).state);
decoder.decode(encoder.encodeAll());
encoder.discardChanges();
state.names[1] = undefined;
decoder.decode(encoder.encode());
const [server, client] = [state, decoder.state].map(({ names }) => names.toJSON().join(", "));
console.log("guess: the same on both sides");
console.log(`seen:  server ${server}; client ${client}`);
process.exit(server === "ada, ben, cleo" && client === "ada, cleo" ? 0 : 1);
JS
node look.mjs
