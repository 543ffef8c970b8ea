#!/usr/bin/env bash
# @colyseus/core 0.18.17: a message that is sent or broadcast with `afterNextPatch: true` in a room that has no state
# never arrives, and the room keeps it: patches are only sent where there is a state. Rooms that only pass messages on
# (chat, signalling) lose those messages without a word, and gather them. With a state they arrive also where nothing
# in it has changed.
# Guess: they arrive with the next turn of the patch interval.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact @colyseus/core@0.18.17 @colyseus/ws-transport@0.18.4 @colyseus/sdk@0.18.4 @colyseus/schema@5.0.34
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { Room, Server } from "@colyseus/core";
import { WebSocketTransport } from "@colyseus/ws-transport";
import { schema, t } from "@colyseus/schema";
import { Client } from "@colyseus/sdk";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@colyseus/core ${versionOf("@colyseus/core")}, @colyseus/sdk ${versionOf("@colyseus/sdk")}, Node ${process.version}`);
const http = createServer();
const server = new Server({ transport: new WebSocketTransport({ server: http, pingInterval: 0 }), greet: false });

const State = schema({ score: t.number().default(0) });
class Bare extends Room {
  onCreate() {
    this.onMessage("go", (sender) => {
      sender.send("now", 1);
      sender.send("later", 1, { afterNextPatch: true });
    });
  }
}
class Stateful extends Bare {
  state = new State();
}
server.define("bare", Bare);
server.define("stateful", Stateful);

await server.listen(0, "127.0.0.1");
const client = new Client(`http://127.0.0.1:${http.address().port}`);

const heardIn = async (name) => {
  const room = await client.create(name);
  const heard = [];
  for (const type of ["now", "later"]) room.onMessage(type, () => heard.push(type));
  room.send("go");
  await delay(2000);
  return heard.join(", ");
};
const [bare, stateful] = [await heardIn("bare"), await heardIn("stateful")];
console.log("guess: now, later in both rooms");
console.log(`seen:  after 2 s ${bare} without a state; ${stateful} with one`);
process.exit(bare === "now" && stateful === "now, later" ? 0 : 1);
JS
node look.mjs
