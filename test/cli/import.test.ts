import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import {
  DATA_DIR,
  eventLine,
  eventLines,
  importFile,
  importTarget,
  readRecords,
  runCommand,
  temporaryDirectory,
} from "../support/import/import-target.ts";
import { pluck } from "../support/pluck.ts";

type Rejected = { line: number; reason: string; text: string; truncated?: true };

describe("laurel import", function () {
  let target: Awaited<ReturnType<typeof importTarget>>;
  let directory: ReturnType<typeof temporaryDirectory>;
  before(async () => (target = await importTarget()));
  beforeEach(() => void (directory = temporaryDirectory()));
  afterEach(() => directory.remove());

  for (const concurrency of [1, 4]) {
    it(`gives every line of the dirty sample its verdict, with ${concurrency} in flight`, async function () {
      const file = join(DATA_DIR, "worldcup-2022-dirty.ndjson.gz");
      if (!existsSync(file)) this.skip();
      const expected = JSON.parse(readFileSync(file.replace(".ndjson.gz", ".expected.json"), "utf8")) as {
        verdicts: string[];
        totals: { accepted: number; skipped: number; rejected: number };
      };
      const where = { state: join(directory.path, "state"), rejected: join(directory.path, "rejected") };
      const key = await target.newKey();
      const result = await importFile({ file, url: target.url, key, concurrency, batch: 500, ...where });
      const wrong = expected.verdicts.flatMap((verdict, index) => {
        const given = result.verdicts.get(index + 1);
        return given?.startsWith(verdict) ? [] : [{ line: index + 1, verdict, given }];
      });
      assert.deepEqual(wrong.slice(0, 5), []);
      assert.deepEqual(result.counts, { ...expected.totals, repeated: 0 });
      const rejected = readRecords<Rejected>(where.rejected);
      assert.equal(rejected.length, expected.totals.rejected);
      assert.ok(rejected.every(({ line, reason }) => expected.verdicts[line - 1] === "r" && reason !== ""));
    });
  }

  it("skips every event when a file is imported again, plain or gzip, with or without keys", async () => {
    const lines = [
      ...eventLines(1_500),
      ...Array.from({ length: 20 }, (_, n) => eventLine({ n, key: null })),
    ];
    const plain = directory.file("events.ndjson", `${lines.join("\n")}\n`);
    const zipped = directory.file("events.ndjson.gz", lines.join("\r\n"));
    const to = { url: target.url, key: await target.newKey() };
    const first = await importFile({ file: plain, ...to });
    assert.deepEqual(first.counts, { accepted: 1_520, skipped: 0, rejected: 0, repeated: 0 });
    for (const file of [plain, zipped]) {
      const again = await importFile({ file, ...to, concurrency: 3 });
      assert.deepEqual(again.counts, { accepted: 0, skipped: 1_520, rejected: 0, repeated: 0 }, file);
    }
  });

  it("applies equal lines without a key as often as they stand in the file", async () => {
    const line = eventLine({ n: 1, key: null });
    const file = directory.file("equal.ndjson", `${line}\n${line}\n${line}\n`);
    const { counts } = await importFile({ file, url: target.url, key: await target.newKey() });
    assert.equal(counts.accepted, 3);
  });

  it("sends events without a key as they are when told so", async () => {
    const file = directory.file("keyless.ndjson", eventLine({ n: 1, key: null }));
    const options = { file, url: target.url, key: await target.newKey(), keyless: "asis" as const };
    await importFile(options);
    assert.equal((await importFile(options)).counts.accepted, 1);
  });

  it("rejects a truncated last line with its number, and sends the rest", async () => {
    const file = directory.file("cut.ndjson", `${eventLines(3).join("\n")}\n{"externalUserId":"an`);
    const { code, out } = await runCommand(file, { url: target.url, key: await target.newKey() });
    assert.equal(code, 3);
    assert.match(out, /^done: 3 accepted, 0 skipped, 1 rejected/);
    const [rejected] = readRecords<Rejected>(`${file}.rejected`);
    assert.equal(rejected!.line, 4);
    assert.match(rejected!.reason, /not valid JSON/);
    assert.equal(rejected!.text, '{"externalUserId":"an');
  });

  it("counts lines as an editor does, past empty lines and a line that is too long", async () => {
    const long = `{"externalUserId":"ann","properties":{"text":"${"x".repeat(2 * 1024 * 1024)}"}}`;
    const file = directory.file(
      "odd.ndjson",
      ["", eventLine({ n: 1 }), "  ", long, '{"eventType":"x"}', ""].join("\n"),
    );
    const result = await importFile({ file, url: target.url, key: await target.newKey() });
    assert.deepEqual(
      [...result.verdicts].toSorted(([a], [b]) => a - b),
      [
        [2, "accepted"],
        [4, "rejected"],
        [5, "rejected"],
      ],
    );
    const rejected = readRecords<Rejected>(`${file}.rejected`);
    assert.deepEqual(pluck(rejected, "line"), [4, 5]);
    assert.equal(rejected[0]!.truncated, true);
    assert.ok(rejected[0]!.text.length <= 4_000);
    assert.match(rejected[1]!.reason, /externalUserId/);
  });

  it("leaves neither a state nor a file of rejected lines behind when all is well", async () => {
    const file = directory.file("clean.ndjson.gz", eventLines(10).join("\n"));
    const { code } = await runCommand(file, { url: target.url, key: await target.newKey() });
    assert.equal(code, 0);
    assert.deepEqual(readdirSync(directory.path), ["clean.ndjson.gz"]);
  });

  it("prints nothing but JSON lines with --json, the summary last", async () => {
    const file = directory.file("json.ndjson", [...eventLines(5), "{"].join("\n"));
    const { code, out, err } = await runCommand(file, {
      url: target.url,
      key: await target.newKey(),
      json: true,
    });
    assert.deepEqual([code, err], [3, ""]);
    const last = out
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line) as Record<string, unknown>)
      .at(-1)!;
    const { type, status, lines, accepted, skipped, rejected, rejectedFile } = last;
    assert.deepEqual({ type, status, lines }, { type: "summary", status: "done", lines: 6 });
    assert.deepEqual({ accepted, skipped, rejected }, { accepted: 5, skipped: 0, rejected: 1 });
    assert.equal(rejectedFile, `${file}.rejected`);
  });

  it("says done when the events are processed and published, unless it must not wait", async () => {
    const file = directory.file("wait.ndjson", eventLines(300).join("\n"));
    const key = await target.newKey();
    const summaryOf = (out: string) =>
      JSON.parse(out.trim().split("\n").at(-1)!) as { processing: string | null; processingSeconds: number };
    const { code, out } = await runCommand(file, { url: target.url, key, json: true });
    assert.deepEqual([code, summaryOf(out).processing], [0, "DONE"]);
    const answer = await fetch(`${target.url}/api/v1/events/backlog`, { headers: { "X-API-Key": key } });
    const backlog = (await answer.json()) as Record<"events" | "commits", { waiting: number }>;
    assert.deepEqual([backlog.events.waiting, backlog.commits.waiting], [0, 0]);
    const again = directory.file("again.ndjson", eventLine({ n: 1_000 }));
    const quick = await runCommand(again, { url: target.url, key, json: true, wait: false });
    assert.equal(summaryOf(quick.out).processing, null);
  });

  it("answers 2 and a reason when it is called wrongly", async () => {
    const file = directory.file("x.ndjson", "{}");
    const key = "svc_live_x";
    const calls = [
      [file, {}, /API key is needed/],
      [file, { key, batch: "1001" }, /--batch must be a number from 1 to 1000/],
      [file, { key, concurrency: "0" }, /--concurrency/],
      [file, { key, url: "ftp://x" }, /--url/],
      [file, { key, keyless: "maybe" }, /--keyless/],
      [file, { keyFile: `${file}.none` }, /cannot read/],
      [`${file}.none`, { key }, /does not exist/],
      [directory.path, { key }, /is a directory/],
    ] as const;
    for (const [path, flags, message] of calls) {
      const { code, err } = await runCommand(path, flags);
      assert.equal(code, 2, String(message));
      assert.match(err, message);
    }
  });
});
