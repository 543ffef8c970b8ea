import assert from "node:assert/strict";
import type { Caller } from "../../src/domain/kernel/caller.ts";
import { readConfigDocument } from "../../src/domain/registries/configuration/document.ts";
import { importConfig } from "../../src/domain/registries/configuration/import.ts";
import { memoryDomain } from "../support/domain/domain.ts";

const MANY = 300;

type Document = Record<string, unknown[]>;

const keyOf = (n: number): string => `k${String(n).padStart(4, "0")}`;
const listOf = <T>(count: number, make: (n: number) => T): T[] =>
  Array.from({ length: count }, (_, n) => make(n));

/** Rewards of which every other one gives the next, which stands behind it. */
const rewards = (count: number) =>
  listOf(count, (n) => {
    const bundle = n % 2 === 0 ? { rewards: [{ rewardKey: keyOf(n + 1) }] } : { xp: 1 };
    return { key: keyOf(n), name: "R", kind: "BUNDLE", bundle };
  });

describe("an import of many definitions", () => {
  const { domain } = memoryDomain();

  const take = async (
    projectId: string,
    sections: Document,
    changes: number,
    { signal } = new AbortController(),
  ) => {
    const document = await readConfigDocument({ format: "laurel/1", ...sections });
    const found = await domain.sql<{ id: string }>`
      select tenant_id as id from projects where id = ${projectId}`;
    const tenantId = found[0]!.id;
    const caller = { kind: "user", userId: projectId, tenantId, role: "OWNER" } as unknown as Caller;
    const questions = new Map();
    const given = { document, questions, prune: true, tenantId, caller, actor: "test", signal };
    const made = await domain.transact((work) => importConfig(work, projectId, given));
    assert.equal(made.length, changes);
  };

  it("ends when nobody waits for it any more, and writes nothing", async () => {
    const projectId = await domain.addProject();
    const presence = new AbortController();
    const importing = take(projectId, { rewards: rewards(MANY) }, MANY, presence);
    setImmediate(() => presence.abort(new Error("the client has gone")));
    await assert.rejects(importing, /the client has gone/);
    await take(projectId, { rewards: rewards(2) }, 2);
  });

  it("names a definition whose names lead in a ring, and writes nothing", async () => {
    const projectId = await domain.addProject();
    await take(projectId, { rewards: rewards(2) }, 2);
    const [first] = rewards(2);
    const back = { ...first, key: keyOf(1), bundle: { rewards: [{ rewardKey: keyOf(0) }] } };
    await assert.rejects(
      take(projectId, { rewards: [first, back] }, 1),
      /rewards k0001: bundle: gives itself: reward k0000 gives reward k0001 gives reward k0000/,
    );
  });
});
