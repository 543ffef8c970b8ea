import assert from "node:assert/strict";
import { eventually } from "../support/eventually.ts";
import { OwnChanges, YoungCache } from "../../src/domain/kernel/caches.ts";
import { ClientGone } from "../../src/domain/kernel/flights.ts";
import { pluck } from "../support/pluck.ts";

const MIB = 1024 * 1024;

/** Readings of one value, each of which ends when the test says so. */
const slowReadings = (changes: OwnChanges) => {
  const cache = new YoungCache<string>({ bytes: MIB, items: 10, changes });
  const readings: PromiseWithResolvers<string>[] = [];
  const make = async () => {
    const reading = Promise.withResolvers<string>();
    readings.push(reading);
    return { value: await reading.promise, bytes: 1 };
  };
  const get = () => cache.get({ projectId: "p", owner: "p", key: "k" }, { isFresh: false, make });
  return { readings, get };
};

describe("a cache of answers", () => {
  it("shares a reading, but not one that began before a change", async () => {
    const changes = new OwnChanges();
    const { readings, get } = slowReadings(changes);
    const before = [get(), get()];
    changes.note("p");
    const after = get();
    assert.equal(readings.length, 2);
    readings[1]!.resolve("new");
    assert.equal((await after).value, "new");
    readings[0]!.resolve("old");
    assert.deepEqual(pluck(await Promise.all(before), "value"), ["old", "old"]);
    const last = get();
    readings[2]?.resolve("newest");
    assert.notEqual((await last).value, "old");
  });

  it("keeps no failure", async () => {
    const cache = new YoungCache<number>({ bytes: MIB, items: 10, changes: new OwnChanges() });
    const of = { projectId: "p", owner: "p", key: "k" };
    const failing = cache.get(of, { isFresh: false, make: () => Promise.reject(new Error("away")) });
    await assert.rejects(failing, /away/);
    const again = await cache.get(of, { isFresh: false, make: async () => ({ value: 7, bytes: 1 }) });
    assert.equal(again.value, 7);
  });

  it("does not fail a caller because the client of another, who began to read, has gone", async () => {
    const { readings, get } = slowReadings(new OwnChanges());
    const asked = [get(), get(), get()];
    readings[0]!.reject(new ClientGone());
    await assert.rejects(asked[0]!, ClientGone);
    await eventually(() => readings.length === 2);
    readings[1]!.resolve("read");
    assert.deepEqual(await Promise.all(asked.slice(1).map(async (one) => (await one).value)), [
      "read",
      "read",
    ]);
  });
});
