import assert from "node:assert/strict";
import { joining } from "../../src/domain/kernel/transact.ts";
import { localKey, retainedKey, type RowScope, Unprepared } from "../../src/domain/kernel/work.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const SCOPE: RowScope = { role: "accounts" };

/** A transaction that is to be repeated. */
class Again extends Unprepared {
  override async prepare(): Promise<void> {}
}

describe("state that a feature keeps with a transaction", () => {
  const local = localKey("local", (): string[] => []);
  const retained = retainedKey("retained", (): string[] => []);

  const { domain } = memoryDomain();

  it("is its own, ends with the transaction, and is retained through its retries alone", async () => {
    const other = localKey("local", (): string[] => ["other"]);
    const tries: string[][] = [];
    const twice = () =>
      domain.transact(async (work) => {
        work.local.get(local).push("seen");
        work.retained.get(retained).push("tried");
        tries.push([...work.local.get(local), ...work.local.get(other), ...work.retained.get(retained)]);
        if (work.retained.get(retained).length < 2 && tries.length < 9) throw new Again("once more");
      });
    await twice();
    await twice();
    const once = [
      ["seen", "other", "tried"],
      ["seen", "other", "tried", "tried"],
    ];
    assert.deepEqual(tries, [...once, ...once]);
  });

  it("is what was set last, and shared by those who join the transaction", async () => {
    const seen = await domain.transact(async (work) => {
      work.local.set(local, ["set"]);
      const inner = await joining(work, SCOPE)(SCOPE)(async (joined) => {
        joined.local.get(local).push("joined");
        return joined.local.get(local);
      });
      return [inner, work.local.get(local)];
    });
    assert.deepEqual(seen, [
      ["set", "joined"],
      ["set", "joined"],
    ]);
  });
});
