#!/usr/bin/env bash
# @colyseus/core 0.18.17: types of messages are numbers or texts, and are sent as what they are, but a room's handlers
# for 1 and for "1" both run for either. Who numbers the types of one feature and names those of another by digits (ids
# of slots, say) has each message handled twice.
# Guess: each handler gets the messages of its own type.
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
import { Client } from "@colyseus/sdk";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`@colyseus/core ${versionOf("@colyseus/core")}, @colyseus/sdk ${versionOf("@colyseus/sdk")}, Node ${process.version}`);
const http = createServer();
const server = new Server({ transport: new WebSocketTransport({ server: http, pingInterval: 0 }), greet: false });

class Numbered extends Room {
  onCreate() {
    this.onMessage(1, (sender) => sender.send("handled", "number"));
    this.onMessage("1", (sender) => sender.send("handled", "text"));
  }
}
server.define("numbered", Numbered);

await server.listen(0, "127.0.0.1");
const client = new Client(`http://127.0.0.1:${http.address().port}`);

const room = await client.create("numbered");
let handled = [];
room.onMessage("handled", (by) => handled.push(by));
const handlersOf = async (type) => {
  handled = [];
  room.send(type, {});
  await delay(200);
  return handled.toSorted().join(" and ");
};
const [byNumber, byText] = [await handlersOf(1), await handlersOf("1")];
console.log('guess: number for 1, text for "1"');
console.log(`seen:  ${byNumber} for 1, ${byText} for "1"`);
process.exit(byNumber === "number and text" && byText === "number and text" ? 0 : 1);
JS
node look.mjs
