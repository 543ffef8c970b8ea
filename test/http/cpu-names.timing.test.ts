import assert from "node:assert/strict";
import { BODY_NAMES_MAX } from "../../src/domain/kernel/limits.ts";
import { isLongJson } from "../../src/domain/kernel/oversize.ts";
import { type Answer, aTenant, startApp, type Tenant, type TestApp } from "../support/app/app.ts";
import { CPU_SLACK, leastBlockMs } from "../support/cpu.ts";

/** CPU that a process may spend on one caller before others are served. */
const BLOCK_MAX_MS = 100 * CPU_SLACK;

/** JSON of an object of so many names; those that are numbers are dearer, being in no order. */
const named = (count: number, nameOf: (i: number) => string, value = "0"): string =>
  `{${Array.from({ length: count }, (_, i) => `"${nameOf(i)}":${value}`).join()}}`;
const word = (i: number): string => `n${i.toString(36)}xxxx`;
const number = (i: number): string => String((i * 7_919) % 1_000_003);

describe("CPU of bodies of many names", () => {
  let api: TestApp;
  let tenant: Tenant;
  before(async () => {
    api = await startApp();
    tenant = await aTenant(api);
  });

  /** Sends a body again and again, and answers the last one. */
  const post = async (path: string, body: string): Promise<Answer> => {
    let answer: Answer | undefined;
    const send = async (): Promise<void> => {
      answer = await api.post(`/api/v1${path}`, body, { key: tenant.key });
    };
    const blockMs = await leastBlockMs(send, BLOCK_MAX_MS);
    assert(blockMs < BLOCK_MAX_MS, `${path}: ${blockMs} ms`);
    return answer!;
  };
  const event = (properties: string): string =>
    `{"externalUserId":"u","eventType":"t","properties":${properties}}`;
  const batch = (properties: string): string => `{"events":[${event(properties)},${event("{}")}]}`;

  it("is bounded by the names of one object, which are counted before it is parsed", async () => {
    const bodies: [path: string, body: string][] = [
      ["/events/batch", batch(named(124_000, word))],
      ["/events", event(named(45_000, number))],
      ["/config/diff", `{"document":${named(120_000, word)}}`],
      ["/config/import", named(120_000, word)],
    ];
    for (const [path, body] of bodies) assert.equal((await post(path, body)).status, 413, path);
    for (const path of ["/config/diff", "/config/import"]) {
      const document = named(BODY_NAMES_MAX, word);
      assert.equal((await post(path, `{"document":${document}}`)).status, 400, path);
    }
  });

  it("is bounded for properties that are far too long, which harm no other event of the batch", async () => {
    for (const nameOf of [word, number]) {
      const wide = named(BODY_NAMES_MAX, nameOf);
      const { status, body } = await post("/events/batch", batch(named(12, word, wide)));
      assert.equal(status, 200);
      assert.equal(body.results[0].message, "properties must be at most 16 KiB of JSON");
      assert.equal(body.results[1].status, "PENDING");
      const alone = await post("/events", event(named(4, word, wide)));
      assert.equal(alone.body.error.message, "properties must be at most 16 KiB of JSON");
    }
  });

  it("of telling that a value is too long does not depend on how long it is", () => {
    const looked: number[] = [];
    for (const length of [10, 1_000, 100_000]) {
      let reads = 0;
      const item = Object.defineProperty({}, "a", { enumerable: true, get: () => void (reads += 1) });
      assert.equal(
        isLongJson(
          Array.from({ length }, () => item),
          2_000,
        ),
        length > 10,
      );
      looked.push(reads);
    }
    assert.equal(looked[1], looked[2]);
    const exact = { a: ["b", 1, null, { c: true }] };
    assert.equal(isLongJson(exact, JSON.stringify(exact).length + 1), false);
    assert.equal(isLongJson("xyz", 5), true);
  });
});
