import assert from "node:assert/strict";
import type { Work } from "../../src/domain/kernel/work.ts";
import { Definition, listDefinitions } from "../../src/domain/economy/definitions/definitions.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { listPlayers } from "../../src/domain/players/player.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const page = { page: 1, limit: 20 } as const;

describe("a list of documents that are only shown", () => {
  const { domain } = memoryDomain();

  /** How many documents the end of the transaction would compare with their originals. */
  const heldAfter = (read: (work: Work) => Promise<number>): Promise<number> =>
    domain.transact(async (work) => {
      assert.equal(await read(work), 1);
      return work.em.getUnitOfWork().getIdentityMap().values().length;
    });

  it("is not compared with itself when its transaction ends", async () => {
    const projectId = await domain.addProject();
    await domain.addPlayer(projectId, "u");
    await domain.transact(async ({ em, now }) => {
      const definition = { key: "gems", name: "Gems" };
      const times = { createdAt: now, updatedAt: now };
      const stored = { ...definition, definition, status: "ACTIVE", version: 1, createdBy: "test" } as const;
      em.create(Definition, { ...stored, ...times, id: newId(), projectId, kind: "currency" });
    });
    const players = { ...page, sort: "createdAt", order: "asc" } as const;
    const definitions = { kind: "currency" };
    assert.equal(
      await heldAfter(async (work) => (await listPlayers(work, projectId, players)).players.length),
      0,
    );
    assert.equal(
      await heldAfter(
        async (work) => (await listDefinitions(work, projectId, definitions, page)).definitions.length,
      ),
      0,
    );
  });
});
