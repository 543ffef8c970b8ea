import assert from "node:assert/strict";
import {
  eventLine,
  eventLines,
  type Fault,
  importFile,
  importTarget,
  never,
  runCommand,
  startFaultProxy,
  temporaryDirectory,
} from "../support/import/import-target.ts";

describe("laurel import over a bad network", () => {
  let target: Awaited<ReturnType<typeof importTarget>>;
  let directory: ReturnType<typeof temporaryDirectory>;
  before(async () => (target = await importTarget()));
  beforeEach(() => void (directory = temporaryDirectory()));
  afterEach(() => directory.remove());

  const through = async (
    plan: (n: number) => Fault,
    run: (proxy: Awaited<ReturnType<typeof startFaultProxy>>) => Promise<void>,
  ) => {
    const proxy = await startFaultProxy(target.url, plan);
    try {
      await run(proxy);
    } finally {
      await proxy.stop();
    }
  };

  it("comes back when 429 and 503 say, and loses nothing", async () => {
    const file = directory.file("events.ndjson", eventLines(300).join("\n"));
    const busy: Fault[] = [
      { status: 429, headers: { "retry-after": "1" } },
      { status: 503, headers: { "retry-after": new Date(Date.now() + 1_000).toUTCString() } },
    ];
    await through(
      (n) => busy[n - 2] ?? "pass",
      async ({ url, requests }) => {
        const { counts, notes } = await importFile({ file, url, key: await target.newKey(), batch: 100 });
        assert.deepEqual(counts, { accepted: 300, skipped: 0, rejected: 0, repeated: 0 });
        assert.equal(requests.length, 5);
        assert.ok(requests[2]!.atMs - requests[1]!.atMs >= 990);
        assert.match(notes[0]!, /429.*trying again in 1\.0 s/);
      },
    );
  });

  it("stores every event once when requests and answers are lost", async () => {
    const lines = [...eventLines(500), ...Array.from({ length: 100 }, (_, n) => eventLine({ n, key: null }))];
    const file = directory.file("events.ndjson", lines.join("\n"));
    const faults: Fault[] = [
      "lose answer",
      "lose request",
      { status: 502 },
      "pass",
      { status: 500 },
      "lose answer",
    ];
    const key = await target.newKey();
    await through(
      (n) => faults[(n - 1) % 7] ?? "pass",
      async ({ url }) => {
        const { status, counts } = await importFile({ file, url, key, batch: 100 });
        assert.equal(status, "done");
        assert.equal(counts.accepted + counts.skipped, 600);
        assert.ok(counts.skipped > 0);
        assert.equal(counts.repeated, counts.skipped);
        assert.equal(await target.countEvents(key), 600);
      },
    );
  });

  it("gives up after its attempts, names the reason, and goes on in the next run", async () => {
    const file = directory.file("events.ndjson", eventLines(300).join("\n"));
    const key = await target.newKey();
    let isDown = true;
    await through(
      (n) => (isDown && n > 1 ? { status: 500 } : "pass"),
      async ({ url }) => {
        const options = { file, url, key, batch: 100 };
        const first = await importFile(options);
        assert.equal(first.status, "failed");
        assert.match(first.error!.message, /gave up after 5 attempts: .*500/);
        isDown = false;
        const second = await importFile(options);
        assert.equal(second.resumedFromLine, 100);
        assert.deepEqual(second.counts, { accepted: 300, skipped: 0, rejected: 0, repeated: 0 });
      },
    );
  });

  it("stops at once, with a reason, when trying again cannot help", async () => {
    const file = directory.file("events.ndjson", eventLines(30).join("\n"));
    const cases: [Fault, RegExp][] = [
      [{ status: 401 }, /401.*check --key/],
      [{ status: 402 }, /402.*quota/],
      [{ status: 403 }, /403.*events:write/],
      [{ status: 404 }, /404.*--url/],
      [
        { status: 301, headers: { location: "https://elsewhere.example" } },
        /redirects to https:\/\/elsewhere/,
      ],
      [{ status: 200, body: "<html>" }, /not as Laurel does.*--url/],
      [{ status: 200, body: '{"results":[]}' }, /answered 0 results for 10 events/],
    ];
    for (const [fault, message] of cases) {
      await through(
        () => fault,
        async ({ url, requests }) => {
          const { code, out } = await runCommand(file, { url, key: "svc_live_x", batch: "10", quiet: true });
          assert.equal(code, 1);
          assert.match(out, message);
          assert.equal(requests.length, 1, String(message));
        },
      );
    }
  });

  it("names a wrong key by the server's own words", async () => {
    const file = directory.file("events.ndjson", eventLine({ n: 1 }));
    const { code, out } = await runCommand(file, { url: target.url, key: "svc_live_wrong" });
    assert.equal(code, 1);
    assert.match(out, /401 .+check --key/);
  });

  it("halves a batch that is too large for something on the way", async () => {
    const file = directory.file("events.ndjson", eventLines(100).join("\n"));
    const proxy = await startFaultProxy(target.url, () =>
      proxy.requests.at(-1)!.events.length > 30 ? { status: 413 } : "pass",
    );
    try {
      const { verdicts, counts } = await importFile({ file, url: proxy.url, key: await target.newKey() });
      assert.equal(counts.accepted, 100);
      assert.equal(verdicts.size, 100);
    } finally {
      await proxy.stop();
    }
  });

  it("stays below the server's limits of events and bytes in a request", async () => {
    const fat = (n: number) => {
      const event = JSON.parse(eventLine({ n, key: n % 2 === 0 ? null : `k${n}` })) as Record<
        string,
        unknown
      >;
      return JSON.stringify({ ...event, properties: { text: "é".repeat(8_000) } });
    };
    const file = directory.file("fat.ndjson", Array.from({ length: 700 }, (_, n) => fat(n)).join("\n"));
    await through(
      () => "pass",
      async ({ url, requests }) => {
        const { counts } = await importFile({ file, url, key: await target.newKey() });
        assert.equal(counts.accepted, 700);
        assert.ok(requests.length >= 3, `${requests.length} requests`);
      },
    );
  });

  it("keeps the order of a player's events with several requests in flight", async () => {
    const players = Array.from({ length: 40 }, (_, n) => `player-${n}`);
    const file = directory.file("events.ndjson", eventLines(2_000, players).join("\n"));
    const faults: Fault[] = ["pass", { status: 503 }, "lose answer", "pass", "pass"];
    await through(
      (n) => faults[n % 5]!,
      async ({ url, requests }) => {
        const options = { file, url, key: await target.newKey(), batch: 40, concurrency: 4 };
        assert.equal((await importFile(options)).status, "done");
        const seen = new Map<string, number[]>();
        for (const { events } of requests) {
          for (const { externalUserId, properties } of events as {
            externalUserId: string;
            properties: { n: number };
          }[]) {
            const numbers = seen.get(externalUserId) ?? [];
            // A request that is sent again repeats numbers; it never brings an earlier one after a later one.
            if (!numbers.includes(properties.n)) numbers.push(properties.n);
            seen.set(externalUserId, numbers);
          }
        }
        assert.equal(seen.size, 40);
        for (const numbers of seen.values())
          assert.deepEqual(
            numbers,
            numbers.toSorted((a, b) => a - b),
          );
      },
    );
  });

  it("stops at once in a pause between attempts", async () => {
    const file = directory.file("events.ndjson", eventLine({ n: 1 }));
    await through(
      () => ({ status: 429, headers: { "retry-after": "600" } }),
      async ({ url }) => {
        const stop = new AbortController();
        const running = importFile(
          { file, url, key: "svc_live_x" },
          { signals: { ...never(), stop: stop.signal } },
        );
        setTimeout(() => stop.abort(), 50);
        assert.equal((await running).status, "interrupted");
      },
    );
  });
});
