import assert from "node:assert/strict";
import { sql } from "kysely";
import { addSanction } from "../../src/domain/social/chat/moderation/sanction-changes.ts";
import { findReaders, type Reader, readerKey } from "../../src/domain/social/chat/channel-row.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { aTalk, noteStatements, type Talk } from "../support/chat/talk.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

describe("who may go on reading", () => {
  const { database, domain } = memoryDomain();

  const readersOf = ({ ref, players }: Talk): Reader[] =>
    players.map(({ playerId }) => ({ ...ref, playerId }));

  it("is found for several projects in one statement, without the banned and the gone", async () => {
    const [one, other] = [await aTalk(domain, 4), await aTalk(domain, 2)];
    for (const talk of [one, other]) await talk.say(talk.players[0]!, "hello");
    const [stays, banned, suspended, erased] = readersOf(one);
    const ban = {
      playerId: banned!.playerId,
      kind: "BAN",
      reason: "Spam",
      channelId: one.ref.channelId,
    } as const;
    await domain.transact((work) => addSanction(work, one.projectId, ban));
    const become = (player: Reader | undefined, status: string) =>
      domain.transact(({ db }) =>
        sql`update players set status = ${status} where id = ${player!.playerId}`.execute(db),
      );
    await become(suspended, "SUSPENDED");
    await become(erased, "ERASED");
    const astray: Reader[] = [
      // A player of another project, and a channel that is not there.
      { ...one.ref, playerId: other.players[0]!.playerId },
      { projectId: one.projectId, channelId: newId(), playerId: stays!.playerId },
    ];
    const present = [...readersOf(one), ...readersOf(other), ...astray];
    const noted = await noteStatements(database);
    const found = await domain.transact((work) => findReaders(work, present));
    const keyOf = ({ channelId, playerId }: Reader) => readerKey(channelId, playerId);
    assert.deepEqual([...found].toSorted(), [stays!, suspended!, ...readersOf(other)].map(keyOf).toSorted());
    assert.equal(noted.filter((text) => text.startsWith("select")).length, 1);
    assert.deepEqual(await domain.transact((work) => findReaders(work, [])), new Set());
  });
});
