#!/usr/bin/env bash
# @colyseus/core 0.18.17: where onJoin throws, so that a client is refused, onLeave runs for that client all the same.
# Whatever onLeave takes back that onJoin has not given yet (a count, a seat at a table, a row in a database) is then
# taken from somebody else.
# Guess: onLeave runs only for those whose onJoin came to its end.
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
import { Room, Server, ServerError } from "@colyseus/core";
import { WebSocketTransport } from "@colyseus/ws-transport";
import { Client } from "@colyseus/sdk";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@colyseus/core ${versionOf("@colyseus/core")}, @colyseus/sdk ${versionOf("@colyseus/sdk")}, Node ${process.version}`);
const http = createServer();
const server = new Server({ transport: new WebSocketTransport({ server: http, pingInterval: 0 }), greet: false });

class Counting extends Room {
  present = 0;
  onCreate() {
    this.onMessage("count", (sender) => sender.send("count", this.present));
  }
  onJoin(_client, { isRefused }) {
    if (isRefused) throw new ServerError(4500, "not you");
    this.present++;
  }
  onLeave() {
    this.present--;
  }
}
server.define("counting", Counting);

await server.listen(0, "127.0.0.1");
const client = new Client(`http://127.0.0.1:${http.address().port}`);

const room = await client.create("counting");
let seen;
room.onMessage("count", (count) => (seen = count));
const refused = await client.joinById(room.roomId, { isRefused: true }).catch((error) => error.message);
await delay(200);
room.send("count");
await delay(200);
console.log("guess: 1 present after the second client was refused");
console.log(`seen:  ${seen} present after the second client was refused ("${refused}")`);
process.exit(seen === 0 && refused === "not you" ? 0 : 1);
JS
node look.mjs
