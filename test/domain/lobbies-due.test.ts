import assert from "node:assert/strict";
import { sql } from "kysely";
import { createLobby, NewLobby } from "../../src/domain/social/lobbies/commands.ts";
import { type DueLobby, findDueLobbies } from "../../src/domain/social/lobbies/game.ts";
import { openDomain, openMemoryDatabase } from "../support/domain/domain.ts";

describe("lobbies that are due", () => {
  it("are read on from the last one, so that those that fail keep no others back", async () => {
    const database = await openMemoryDatabase();
    const domain = openDomain(database);
    const projectId = await domain.addProject();
    const ids: string[] = [];
    for (const name of ["ada", "bob", "cy"]) {
      const hostPlayerId = await domain.addPlayer(projectId, name);
      const input = NewLobby.parse({ mode: "race", maxPlayers: 2 });
      const creation = { hostPlayerId, via: "API" } as const;
      const { lobby } = await domain.transact((work) => createLobby(work, projectId, input, creation));
      ids.push(lobby.id);
    }
    // Two at one moment, and one a microsecond later.
    await domain.transact(({ db, now }) =>
      sql`update lobbies set due_at = ${now.toISOString()}::timestamptz - interval '1 s'
        + case when id = ${ids[2]}::uuid then interval '1 microsecond' else interval '0' end
        where project_id = ${projectId}::uuid`.execute(db),
    );
    const found: string[] = [];
    for (let after: DueLobby | undefined, i = 0; i < 4; i++) {
      const [next] = await domain.transact((work) => findDueLobbies(work, after, 1));
      if (!next) break;
      found.push(next.lobbyId);
      after = next;
    }
    await database.close();
    assert.deepEqual(found, ids);
  });
});
