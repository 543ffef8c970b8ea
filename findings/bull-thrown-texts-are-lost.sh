#!/usr/bin/env bash
# bull 4.16.5: a processor that throws something other than an Error, such as a text, fails its job with the reason
# "null"; what was thrown is kept nowhere. Only the event `failed` of the same process has the text.
# Guess: failedReason is the text that was thrown.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact bull@4.16.5
cat >look.mjs <<'JS'
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { once } from "node:events";
import Queue from "bull";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`bull ${versionOf("bull")}, Node ${process.version}`);
const { hostname: host, port } = new URL(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const queue = new Queue(`look-${randomUUID()}`, { redis: { host, port: Number(port || 6379) } });
queue.process(() => {
  throw "the card was declined";
});
const failed = once(queue, "failed");
const { id } = await queue.add({});
const [, heard] = await failed;
const { failedReason, stacktrace } = await queue.getJob(id);
await queue.obliterate({ force: true });
await queue.close();
console.log("guess: the card was declined");
console.log(`seen:  stored ${JSON.stringify(failedReason)}, ${stacktrace.length} stacks; told by the event: ${heard}`);
process.exit(String(failedReason) === "null" && heard === "the card was declined" ? 0 : 1);
JS
node look.mjs
