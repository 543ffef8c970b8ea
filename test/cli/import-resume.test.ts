import assert from "node:assert/strict";
import { appendFileSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { kill, laurel } from "../support/processes/process.ts";
import {
  eventLine,
  eventLines,
  importFile,
  importTarget,
  never,
  readRecords,
  startFaultProxy,
  temporaryDirectory,
} from "../support/import/import-target.ts";

/** The last line of a run with --json. */
const summaryOf = (text: string) => JSON.parse(text.trim().split("\n").at(-1)!) as Record<string, number>;

/** Valid events with lines between them that the importer or the server rejects. */
const mixedLines = (count: number): string[] =>
  eventLines(count).map((line, n) => {
    if (n % 97 === 5) return "{ not json";
    if (n % 89 === 7) return '{"eventType":"no_player"}';
    return n % 53 === 3 ? eventLine({ n, key: null }) : line;
  });

describe("laurel import, interrupted", () => {
  let target: Awaited<ReturnType<typeof importTarget>>;
  let directory: ReturnType<typeof temporaryDirectory>;
  before(async () => (target = await importTarget()));
  beforeEach(() => void (directory = temporaryDirectory()));
  afterEach(() => directory.remove());

  for (const concurrency of [1, 3]) {
    it(`gives the totals and rejected lines of a whole one, ${concurrency} in flight`, async () => {
      const content = mixedLines(2_000).join("\n");
      const whole = directory.file("whole.ndjson", content);
      const parts = directory.file("parts.ndjson", content);
      const straight = await importFile({
        file: whole,
        url: target.url,
        key: await target.newKey(),
        concurrency,
      });
      const options = { file: parts, url: target.url, key: await target.newKey(), batch: 50, concurrency };

      const settled: number[] = [];
      let last: Awaited<ReturnType<typeof importFile>>;
      let runs = 0;
      do {
        const stop = new AbortController();
        let lines = 0;
        const onLine = (line: number) => {
          settled.push(line);
          lines += 1;
          if (lines >= 450) stop.abort();
        };
        last = await importFile(options, { signals: { ...never(), stop: stop.signal }, onLine });
        runs += 1;
        assert.equal(existsSync(`${parts}.state`), last.status === "interrupted");
      } while (last.status === "interrupted" && runs < 20);

      assert.equal(last.status, "done");
      assert.ok(runs >= 4, `${runs} runs`);
      assert.ok(last.resumedFromLine! > 0);
      assert.deepEqual(last.counts, straight.counts);
      assert.equal(settled.length, 2_000);
      assert.equal(new Set(settled).size, 2_000);
      const byLine = (file: string) =>
        readRecords<{ line: number }>(file).toSorted((a, b) => a.line - b.line);
      assert.deepEqual(byLine(`${parts}.rejected`), byLine(`${whole}.rejected`));
    });
  }

  it("stores every event once when the process is killed at any moment and started again", async () => {
    const file = directory.file("events.ndjson.gz", mixedLines(3_000).join("\n"));
    const key = await target.newKey();
    const proxy = await startFaultProxy(target.url);
    try {
      const args = ["import", file, "--url", proxy.url, "--key", key, "--batch", "100"];
      const rejected = ["--rejected", join(directory.path, "rejected"), "--json"];
      for (const until of [3, 9, 14]) {
        const running = laurel([...args, ...rejected]);
        await eventually(() => proxy.requests.length >= until, { timeoutMs: 60_000 });
        await kill(running);
      }
      const { ended, output } = laurel([...args, ...rejected]);
      assert.equal(await ended, 3, output());
      const summary = summaryOf(output());
      assert.equal(summary["lines"], 3_000);
      const badLines = mixedLines(3_000).filter((line) => /not json|no_player/.test(line)).length;
      assert.equal(summary["rejected"], badLines);
      assert.equal(await target.countEvents(key), 3_000 - badLines);
      assert.equal(readRecords(join(directory.path, "rejected")).length, badLines);
    } finally {
      await proxy.stop();
    }
  });

  it("stops at Ctrl-C with the answer to what it has sent, and says how to go on", async () => {
    const file = directory.file("events.ndjson", eventLines(2_000).join("\n"));
    const key = await target.newKey();
    const proxy = await startFaultProxy(target.url);
    try {
      const args = ["import", file, "--url", proxy.url, "--key", key, "--batch", "20"];
      const { child, ended, output } = laurel(args);
      await eventually(() => proxy.requests.length >= 5, { timeoutMs: 60_000 });
      child.kill("SIGINT");
      assert.equal(await ended, 1, output());
      assert.match(output(), /^interrupted: [\d,]+ accepted, 0 skipped, 0 rejected/m);
      assert.match(output(), /run the same command again to go on/);
      const again = laurel([...args, "--json"]);
      assert.equal(await again.ended, 0, again.output());
      const summary = summaryOf(again.output());
      assert.deepEqual([summary["accepted"], summary["skipped"]], [2_000, 0]);
    } finally {
      await proxy.stop();
    }
  });

  it("refuses to go on in a file that has changed, until it is told to start over", async () => {
    const lines = eventLines(400);
    const file = directory.file("events.ndjson", lines.join("\n"));
    const options = { file, url: target.url, key: await target.newKey(), batch: 50 };
    const stop = new AbortController();
    const first = await importFile(options, {
      signals: { ...never(), stop: stop.signal },
      onLine: (line) => void (line === 150 && stop.abort()),
    });
    assert.equal(first.status, "interrupted");
    writeFileSync(file, [eventLine({ n: 9_999 }), ...lines.slice(1)].join("\n"));
    const refused = await importFile(options);
    assert.equal(refused.status, "failed");
    assert.match(refused.error!.message, /has changed since.*--no-resume/);
    writeFileSync(file, "");
    assert.match((await importFile(options)).error!.message, /has changed since/);
    writeFileSync(file, [eventLine({ n: 9_999 }), ...lines.slice(1)].join("\n"));
    const anew = await importFile({ ...options, resume: false });
    assert.equal(anew.status, "done");
    assert.equal(anew.counts.accepted + anew.counts.skipped, 400);
    assert.equal(anew.counts.skipped, first.counts.accepted - 1);
  });

  it("goes on in a file that has only grown", async () => {
    const file = directory.file("events.ndjson", `${eventLines(300).join("\n")}\n`);
    const options = { file, url: target.url, key: await target.newKey(), batch: 50 };
    const stop = new AbortController();
    const signals = { ...never(), stop: stop.signal };
    await importFile(options, { signals, onLine: (line) => void (line === 100 && stop.abort()) });
    appendFileSync(file, `${eventLine({ n: 300 })}\n`);
    const { status, counts } = await importFile(options);
    assert.equal(status, "done");
    assert.deepEqual(counts, { accepted: 301, skipped: 0, rejected: 0, repeated: 0 });
  });

  it("keeps a state for each project, and no key in any", async () => {
    const file = directory.file("events.ndjson", eventLines(300).join("\n"));
    const stop = new AbortController();
    const key = await target.newKey();
    const signals = { ...never(), stop: stop.signal };
    const { statePath } = await import("../../src/cli/import-run.ts");
    const [mine, other] = [
      statePath(file, target.url, key),
      statePath(file, target.url, await target.newKey()),
    ];
    assert.notEqual(mine, other);
    await importFile(
      { file, url: target.url, key, batch: 50, state: mine },
      { signals, onLine: (line) => void (line === 100 && stop.abort()) },
    );
    assert.ok(existsSync(mine) && !existsSync(other));
    assert.ok(!readFileSync(mine, "utf8").includes(key) && !mine.includes(key));
  });
});
