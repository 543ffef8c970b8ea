import assert from "node:assert/strict";
import { sql } from "kysely";
import {
  closeLobbyChannel,
  openDirect,
  openLobbyChannel,
  readChannel,
} from "../../src/domain/social/chat/channels.ts";
import { readMessages, sendMessages } from "../../src/domain/social/chat/messages.ts";
import { eraseChat, mergeChat } from "../../src/domain/social/chat/personal.ts";
import { markRead, react } from "../../src/domain/social/chat/send-known.ts";
import { FIRST_CHANNEL, pruneChannels, type RetentionCursor } from "../../src/domain/social/chat/settings.ts";
import type { ChatActor } from "../../src/domain/kernel/events/chat-views.ts";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { aTalk, messageOf, type PlayerActor, type Talk } from "../support/chat/talk.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

const DAY_MS = 86_400_000;
const SERVER: ChatActor = { kind: "SERVER", isModerator: true };

describe("what chat keeps", () => {
  const { domain } = memoryDomain();

  /** A transaction at another time. */
  const later = <T>(ms: number, run: (work: Work) => Promise<T>): Promise<T> =>
    domain.transact((work) => run({ ...work, now: new Date(work.now.getTime() + ms) }));

  const prune = async (ms: number): Promise<void> => {
    let at: RetentionCursor | undefined = FIRST_CHANNEL;
    while (at) {
      const after: RetentionCursor = at;
      at = await later(ms, (work) => pruneChannels(work, after));
    }
  };

  const count = async (table: string, { projectId }: Pick<Talk, "projectId">): Promise<number> => {
    const found = await domain.transact(({ db }) =>
      sql<{ n: number }>`
        select count(*)::int as n from ${sql.table(table)} where project_id = ${projectId}`.execute(db),
    );
    return found.rows[0]!.n;
  };

  const refusal = async (run: () => Promise<unknown>): Promise<string> => {
    try {
      await run();
      return "";
    } catch (error) {
      if (error instanceof DomainError) return error.reason ?? error.code;
      throw error;
    }
  };

  it("lets who is in a lobby speak and read, then read for 10 minutes, then nobody but servers", async () => {
    const talk = await aTalk(domain, 3);
    const { projectId, players } = talk;
    const [member, watcher, stranger] = players as [PlayerActor, PlayerActor, PlayerActor];
    const lobbyId = newId();
    const channelId = await domain.transact(async (work) => {
      for (const [player, role] of [
        [member, "PLAYER"],
        [watcher, "SPECTATOR"],
      ] as const)
        await sql`
          insert into lobby_members (project_id, lobby_id, player_id, mode, status, role, joined_at)
          values (${projectId}, ${lobbyId}, ${player.playerId}, 'duel', 'JOINED', ${role}, now())`.execute(
          work.db,
        );
      return openLobbyChannel(work, projectId, lobbyId, "Lobby");
    });
    const ref = { projectId, channelId };
    const say = (actor: ChatActor, ms = 0) =>
      later(ms, async (work) =>
        messageOf((await sendMessages(work, ref, [{ actor, send: { content: "gg" } }])).sent[0]),
      );
    const read = (actor: ChatActor, ms = 0) =>
      later(ms, (work) => readMessages(work, ref, actor, { limit: 9 }));
    await say(member);
    await say(watcher);
    assert.equal(await refusal(() => say(stranger)), "NOT_FOUND");
    assert.equal(await refusal(() => read(stranger)), "NOT_FOUND");
    await domain.transact((work) => closeLobbyChannel(work, projectId, lobbyId));
    await domain.transact(({ db }) =>
      sql`update lobby_members set status = 'LEFT' where lobby_id = ${lobbyId}`.execute(db),
    );
    assert.equal(await refusal(() => say(member)), "CHANNEL_RESTRICTED");
    for (const reader of [member, watcher, SERVER]) assert.equal((await read(reader, 590_000)).length, 2);
    assert.equal(await refusal(() => read(stranger)), "NOT_FOUND");
    assert.equal(await refusal(() => read(member, 610_000)), "NOT_FOUND");
    assert.equal((await read(SERVER, 610_000)).length, 2);
    await prune(6 * DAY_MS);
    assert.equal((await read(SERVER)).length, 2);
    await prune(8 * DAY_MS);
    assert.equal(await refusal(() => read(SERVER)), "NOT_FOUND");
    assert.equal(await count("chat_messages", talk), 0);
    assert.equal(await count("chat_members", talk), 0);
  });

  it("goes after the channel's days, with all that hangs on it, but not while it is reported", async () => {
    const talk = await aTalk(domain, 2);
    const { projectId, ref } = talk;
    const [ada, bob] = talk.players as [PlayerActor, PlayerActor];
    for (let i = 1; i <= 450; i += 50) {
      const group = Array.from({ length: 50 }, (_, k) => ({
        actor: ada,
        send: { content: `text ${i + k}` },
      }));
      await talk.send(...group);
    }
    await domain.transact((work) => react(work, ref, bob, { seq: 1, emoji: "x", op: "ADD" }));
    const report = (status: string) =>
      domain.transact(({ db }) =>
        sql`insert into chat_reports (project_id, id, channel_id, seq, reason, status, created_at)
          values (${projectId}, ${newId()}, ${ref.channelId}, 2, 'SPAM', ${status}, now())`.execute(db),
      );
    await report("OPEN");
    await domain.transact(({ db }) =>
      sql`update chat_messages set created_at = now() - interval '91 days'
        where project_id = ${projectId} and seq <= 440`.execute(db),
    );
    const left = async () => (await talk.read(bob)).map(({ seq }) => seq);
    await prune(0);
    assert.deepEqual(await left(), [2, 441, 442, 443, 444, 445, 446, 447, 448, 449, 450]);
    assert.equal(await count("chat_reactions", talk), 0);
    await domain.transact(({ db }) =>
      sql`update chat_reports set status = 'RESOLVED' where project_id = ${projectId}`.execute(db),
    );
    await prune(0);
    assert.equal((await left())[0], 441);
    const told = await domain.transact(({ db }) =>
      sql<{ n: number }>`
        select count(*)::int as n from outbox
        where project_id = ${projectId} and type = 'chat.message_sent'`.execute(db),
    );
    assert.equal(told.rows[0]!.n, 10);
    assert.equal((await talk.say(bob, "next")).seq, 451);
  });

  it("is nobody's and empty after an erasure, and its places stay", async () => {
    const talk = await aTalk(domain, 2);
    const [ada, bob] = talk.players as [PlayerActor, PlayerActor];
    await talk.say(ada, "my address is", { clientMsgId: "c" });
    await talk.say(bob, "hm");
    await talk.say(ada, "and my name");
    const person = { projectId: talk.projectId, ids: [ada.playerId] };
    const erased = await domain.transact((work) => eraseChat(work, person));
    assert.deepEqual(erased, { count: 2, isMore: false });
    const read = await talk.read(bob);
    assert.deepEqual(
      read.map(({ seq, content, sender }) => [seq, content, sender?.playerId ?? null]),
      [
        [1, "", null],
        [2, "hm", bob.playerId],
        [3, "", null],
      ],
    );
    const rows = await domain.transact(({ db }) =>
      sql<{ text: string }>`
        select m::text || coalesce(o.data::text, '') as text from chat_messages m
        left join outbox o on o.id = m.id where m.project_id = ${talk.projectId}`.execute(db),
    );
    for (const { text } of rows.rows) assert.doesNotMatch(text, /address|name/);
  });

  it("goes to the one that a player is merged into", async () => {
    const talk = await aTalk(domain, 3);
    const { projectId, ref } = talk;
    const [source, target, friend] = talk.players as [PlayerActor, PlayerActor, PlayerActor];
    await talk.say(source, "one", { clientMsgId: "c" });
    await talk.say(target, "two", { clientMsgId: "c" });
    for (const actor of [source, target])
      await domain.transact((work) => react(work, ref, actor, { seq: 2, emoji: "x", op: "ADD" }));
    await domain.transact((work) => markRead(work, ref, source, { seq: 2 }));
    await domain.transact((work) => markRead(work, ref, target, { seq: 1 }));
    const direct = await domain.transact((work) =>
      openDirect(work, projectId, [source.playerId, friend.playerId]),
    );
    const merging = { projectId, sourceId: source.playerId, targetId: target.playerId };
    await domain.transact((work) => mergeChat(work, merging));
    const read = await talk.read(target);
    assert.deepEqual(
      read.map(({ sender, clientMsgId }) => [sender?.playerId, clientMsgId]),
      [
        [target.playerId, undefined],
        [target.playerId, "c"],
      ],
    );
    assert.deepEqual(read[1]!.reactions, [{ emoji: "x", count: 1, mine: true }]);
    const found = await domain.transact((work) =>
      openDirect(work, projectId, [target.playerId, friend.playerId]),
    );
    assert.deepEqual([found.isNew, found.channel.id], [false, direct.channel.id]);
    const seen = await domain.transact((work) => readChannel(work, ref, target));
    assert.equal(seen.unread, 0);
  });
});
