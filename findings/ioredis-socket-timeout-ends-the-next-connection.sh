#!/usr/bin/env bash
# ioredis 5.11.1: the timer of `socketTimeout` outlives its socket. Where a connection breaks while an answer is owed,
# ioredis reconnects, and the timer of the broken connection then ends the new one, which is well: every interruption
# is followed by a second one within that time, and what was asked meanwhile is asked again or fails.
# Guess: the timer goes with its socket, and the new connection stays.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact ioredis@5.11.1
cat >look.mjs <<'JS'
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { Redis } from "ioredis";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`ioredis ${versionOf("ioredis")}, Node ${process.version}`);
const url = process.env.REDIS_URL ?? "redis://127.0.0.1:6379";
const SOCKET_TIMEOUT_MS = 2000;
const admin = new Redis(url);
const redis = new Redis(url, { socketTimeout: SOCKET_TIMEOUT_MS, maxRetriesPerRequest: 0, retryStrategy: () => 50 });
let closed = 0;
redis.on("error", () => undefined).on("close", () => closed++);
const id = await redis.client("ID");
redis.blpop("look:nothing-comes-here", 30).catch(() => undefined);
await delay(500);
await admin.client("KILL", "ID", id);
await delay(500);
const [before, status] = [closed, redis.status];
await delay(SOCKET_TIMEOUT_MS);
console.log("guess: closed once, by the server");
console.log(`seen:  closed ${before} time and ${status} again; ${SOCKET_TIMEOUT_MS} ms later closed ${closed} times`);
process.exit(before === 1 && status === "ready" && closed === 2 ? 0 : 1);
JS
node look.mjs
