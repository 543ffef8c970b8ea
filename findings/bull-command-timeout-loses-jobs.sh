#!/usr/bin/env bash
# bull 4.16.5 with ioredis 5.11.1: `commandTimeout`, set so that commands do not wait for a silent Redis, also counts
# for the command by which a worker waits for jobs. That one is given up on this side while Redis still holds it; a job
# that comes then is moved to the list of active ones, and nobody processes it until it is found to have stalled.
# Adding jobs works, and the only sign is an error event that says "Command timed out". A connection of its own for
# `bclient` (option createClient), without that timeout, processes all at once.
# Guess: the waiting command is left out of the timeout, as bull makes that connection itself.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm init --yes >/dev/null
npm install --silent --no-audit --no-fund --save-exact bull@4.16.5 ioredis@5.11.1
cat >look.mjs <<'JS'
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import Queue from "bull";

const versionOf = (name) => JSON.parse(readFileSync(`node_modules/${name}/package.json`, "utf8")).version;
console.log(`bull ${versionOf("bull")}, ioredis ${versionOf("ioredis")}, Node ${process.version}`);
const { hostname: host, port } = new URL(process.env.REDIS_URL ?? "redis://127.0.0.1:6379");
const JOBS = 6;
const processedWith = async (commandTimeout) => {
  const redis = { host, port: Number(port || 6379), ...commandTimeout };
  const queue = new Queue(`look-${randomUUID()}`, { redis });
  queue.on("error", () => undefined);
  let processed = 0;
  queue.process(() => void processed++);
  await queue.isReady();
  for (let n = 0; n < JOBS; n++) {
    await delay(1300);
    await queue.add({ n });
  }
  await delay(7000);
  const { active } = await queue.getJobCounts();
  await queue.obliterate({ force: true });
  await queue.close().catch(() => undefined);
  return { processed, active };
};
const [without, withTimeout] = [await processedWith({}), await processedWith({ commandTimeout: 1000 })];
const shown = ({ processed, active }) => `${processed} of ${JOBS} jobs processed after 7 s, ${active} said to be active`;
console.log("guess: the same with and without");
console.log(`seen:  without commandTimeout ${shown(without)}; with 1000 ms ${shown(withTimeout)}`);
process.exit(without.processed === JOBS && withTimeout.processed < JOBS && withTimeout.active > 0 ? 0 : 1);
JS
node look.mjs
