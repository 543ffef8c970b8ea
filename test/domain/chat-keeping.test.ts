import assert from "node:assert/strict";
import { sql } from "kysely";
import { DomainError } from "../../src/domain/kernel/errors.ts";
import type { ChatActor, ChatLine } from "../../src/domain/kernel/events/social-views.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { commitBy } from "../../src/domain/kernel/read.ts";
import type { Work } from "../../src/domain/kernel/work.ts";
import { globalChannelId } from "../../src/domain/social/chat/channel-row.ts";
import {
  closeLobbyChannel,
  openDirect,
  openLobbyChannel,
  readChannel,
} from "../../src/domain/social/chat/channels.ts";
import {
  readMessages,
  type Sending,
  sendMessages,
  type Sent,
} from "../../src/domain/social/chat/messages.ts";
import { reportMessage } from "../../src/domain/social/chat/moderation/report-queue.ts";
import { patchReport } from "../../src/domain/social/chat/moderation/sanction-changes.ts";
import { eraseChat, mergeChat } from "../../src/domain/social/chat/personal.ts";
import { markRead, react } from "../../src/domain/social/chat/commands.ts";
import { FIRST_CHANNEL, pruneChannels, type RetentionCursor } from "../../src/domain/social/chat/settings.ts";
import {
  aTalk,
  knownSends,
  type KnownSends,
  messageOf,
  type PlayerActor,
  type Talk,
} from "../support/chat/talk.ts";
import { makeCrashing } from "../support/domain/crashing.ts";
import { memoryDomain } from "../support/domain/domain.ts";
import { madeOnce } from "../support/made.ts";
import { pluck } from "../support/pluck.ts";

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
    const found = await domain.sql<{ n: number }>`
      select count(*)::int as n from ${sql.table(table)} where project_id = ${projectId}`;
    return found[0]!.n;
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
    await domain.sql`update lobby_members set status = 'LEFT' where lobby_id = ${lobbyId}`;
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
      domain.sql`insert into chat_reports (project_id, id, channel_id, seq, reason, status, created_at)
        values (${projectId}, ${newId()}, ${ref.channelId}, 2, 'SPAM', ${status}, now())`;
    await report("OPEN");
    await domain.sql`update chat_messages set created_at = now() - interval '91 days'
      where project_id = ${projectId} and seq <= 440`;
    const left = async () => (await talk.read(bob)).map(({ seq }) => seq);
    await prune(0);
    assert.deepEqual(await left(), [2, 441, 442, 443, 444, 445, 446, 447, 448, 449, 450]);
    assert.equal(await count("chat_reactions", talk), 0);
    await domain.sql`update chat_reports set status = 'RESOLVED' where project_id = ${projectId}`;
    await prune(0);
    assert.equal((await left())[0], 441);
    const told = await domain.sql<{ n: number }>`
      select count(*)::int as n from outbox
      where project_id = ${projectId} and type = 'chat.message_sent'`;
    assert.equal(told[0]!.n, 10);
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
    const rows = await domain.sql<{ text: string }>`
      select m::text || coalesce(o.data::text, '') as text from chat_messages m
      left join outbox o on o.id = m.id where m.project_id = ${talk.projectId}`;
    for (const { text } of rows) assert.doesNotMatch(text, /address|name/);
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

describe("sends that are decided by what a room remembers", () => {
  const { domain } = memoryDomain();

  const open = async (players = 3): Promise<{ talk: Talk; room: KnownSends }> => {
    const talk = await aTalk(domain, players);
    return { talk, room: knownSends(domain, talk, commitBy(domain.transact)) };
  };
  const rows = ({ projectId }: Talk): Promise<Record<string, unknown>[]> => domain.sql<
    Record<string, unknown>
  >`
    select m.seq::int as seq, p.external_user_id as by, type, content, original, reply_to::int as re,
      client_msg_id as k, moderation, flags, is_shadowed as h, c.last_seq::int as last
    from chat_messages m join chat_channels c on c.project_id = m.project_id and c.id = m.channel_id
    left join players p on p.project_id = m.project_id and p.id = m.sender_id
    where m.project_id = ${projectId} order by m.seq`;
  const outboxOf = async ({ projectId }: Talk): Promise<string[]> => {
    const found = await domain.sql<{ type: string }>`
      select type from outbox where project_id = ${projectId} and type like 'chat.%'
      order by id`;
    return found.map(({ type }) => type);
  };
  const mute = ({ projectId, players }: Talk, n: number): Promise<unknown> =>
    domain.sql`insert into chat_sanctions (project_id, id, player_id, kind, reason, created_by, created_at)
      values (${projectId}, ${newId()}, ${players[n]!.playerId}, 'MUTE', 'test', 'test', now())`;
  const set = (talk: Talk, settings: object): Promise<unknown> =>
    domain.sql`update chat_channels set settings = settings || ${JSON.stringify(settings)}::jsonb
      where project_id = ${talk.projectId}`;

  /** What both ways must agree in. */
  const told = ({ sent, lines }: { sent: Sent[]; lines: ChatLine[] }, talk: Talk) => {
    const names = new Map(talk.players.map(({ playerId }, n) => [playerId, `p${n}`]));
    const text = JSON.stringify([
      sent.map((one) => ("error" in one ? [one.error.code, one.error.message, one.error.details] : one)),
      lines,
    ]);
    return text
      .replaceAll(/[0-9a-f]{8}-[0-9a-f-]{27}/g, (id) => names.get(id) ?? "id")
      .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "time");
  };

  it("come out as others do, whatever is sent, and most of them in one message", async () => {
    const { talk, room } = await open();
    const twin = await aTalk(domain, 3);
    const groups: ((of: Talk) => Sending[])[] = [
      (of) => [by(of, 0, "hello")],
      (of) => [by(of, 0, "one"), by(of, 1, "two", { clientMsgId: "a" }), by(of, 2, "three")],
      (of) => [by(of, 1, "two", { clientMsgId: "a" })],
      (of) => [by(of, 1, "b", { clientMsgId: "b" }), by(of, 1, "b", { clientMsgId: "b" })],
      (of) => [by(of, 2, "an answer", { replyTo: 2 })],
      (of) => [by(of, 2, "an answer too", { replyTo: 2 }), by(of, 0, "to nothing", { replyTo: 99 })],
      (of) => [by(of, 0, "@p1 look"), by(of, 1, "plain")],
      (of) => [by(of, 0, ""), by(of, 1, "after an empty one"), by(of, 2, "x".repeat(5_000))],
      (of) => [by(of, 0, "what the fuck"), by(of, 1, "https://example.com")],
      (of) => [by(of, 0, "@everyone"), by(of, 2, "last")],
      (of) => [by(of, 0, "0"), by(of, 1, "1"), by(of, 2, "2")],
    ];
    for (const group of groups) {
      const expected = await domain.transact((work) => sendMessages(work, twin.ref, group(twin), true));
      assert.equal(told(await room.send(...group(talk)), talk), told(expected, twin));
    }
    assert.deepEqual(await rows(talk), await rows(twin));
    assert.deepEqual(await outboxOf(talk), await outboxOf(twin));
    assert.ok(room.counts.known >= 4, `${room.counts.known} were one message`);
  });

  it("write nothing once a sender is muted, and are refused then", async () => {
    const { talk, room } = await open();
    await room.send(by(talk, 0, "a"), by(talk, 1, "b"));
    assert.ok(await room.guess(by(talk, 0, "c")));
    await mute(talk, 0);
    assert.equal(await room.guess(by(talk, 1, "of another"), by(talk, 0, "d")), undefined);
    assert.equal((await rows(talk)).length, 3);
    const { sent } = await room.send(by(talk, 0, "e"), by(talk, 1, "f"));
    assert.ok("error" in sent[0]! && sent[0].error.reason === "PLAYER_MUTED");
    assert.equal(messageOf(sent[1]).seq, 4);
    assert.equal(room.counts.known, 1);
  });

  it("write nothing once anything has changed that decides, and go on afterwards", async () => {
    const { talk, room } = await open(1);
    const changes: Record<string, () => Promise<unknown>> = {
      settings: () => set(talk, { maxLength: 20 }),
      "a name": () => onPlayer(talk, sql`display_name = 'Ada'`),
      "a level": () => onPlayer(talk, sql`level = 7`),
      status: () =>
        domain.sql`update chat_channels set status = 'ARCHIVED' where project_id = ${talk.projectId}`,
    };
    await room.send(by(talk, 0, "first"));
    for (const [what, change] of Object.entries(changes)) {
      assert.ok(await room.guess(by(talk, 0, "as known")), what);
      await change();
      const before = (await rows(talk)).length;
      assert.equal(await room.guess(by(talk, 0, "not as known")), undefined, what);
      assert.equal((await rows(talk)).length, before, what);
    }
    const { sent } = await room.send(by(talk, 0, "in an archive"));
    assert.ok("error" in sent[0]!);
  });

  const onPlayer = (talk: Talk, change: ReturnType<typeof sql>): Promise<unknown> =>
    domain.sql`update players set ${change} where project_id = ${talk.projectId}`;

  it("are numbered on from what other rooms have sent meanwhile", async () => {
    const { talk, room } = await open();
    await room.send(by(talk, 0, "a"));
    for (let n = 0; n < 5; n++) await talk.say(talk.players[1]!, `b${n}`);
    const guessed = await room.guess(by(talk, 0, "c"), by(talk, 0, "d"));
    assert.deepEqual(
      guessed!.sent.map((one) => messageOf(one).seq),
      [7, 8],
    );
    assert.deepEqual(
      pluck(await rows(talk), "seq", "last"),
      [1, 2, 3, 4, 5, 6, 7, 8].map((seq) => [seq, 8]),
    );
  });
});

const by = (talk: Talk, n: number, content: string, more: Partial<Sending["send"]> = {}): Sending => ({
  actor: talk.players[n]!,
  send: { content, ...more },
});

describe("what a moderator decides", () => {
  let projectId: string;
  const { database, domain } = memoryDomain();
  const crashing = madeOnce(() => makeCrashing(database));
  beforeEach(async () => {
    projectId = await domain.addProject();
  });

  /** A report of a message of ada, taken on. */
  const aReport = async (): Promise<string> => {
    const ref = { projectId, channelId: globalChannelId(projectId) };
    const actor = { kind: "PLAYER", playerId: await domain.addPlayer(projectId, "ada") } as const;
    await domain.addPlayer(projectId, "bob");
    await domain.transact((work) => sendMessages(work, ref, [{ actor, send: { content: "you again" } }]));
    const report = { seq: 1, playerId: "ext:bob", reason: "SPAM" } as const;
    const { id } = await domain.transact((work) => reportMessage(work, ref, report));
    await domain.transact((work) => patchReport(work, projectId, id, { status: "IN_REVIEW" }));
    return id;
  };

  const read = async () => {
    const of = sql`project_id = ${projectId}`;
    const found = await domain.sql<{
      status: string;
      removed: number;
      sanctions: number;
      inbox: number;
      told: number;
    }>`
      select (select status from chat_reports where ${of}) as status,
        (select count(*)::int from chat_messages where ${of} and moderation = 'REMOVED') as removed,
        (select count(*)::int from chat_sanctions where ${of}) as sanctions,
        (select count(*)::int from inbox_messages where ${of}) as inbox,
        (select count(*)::int from outbox where ${of}
          and type in ('chat.player_sanctioned', 'chat.message_moderated')) as told`;
    const { status, removed, sanctions, inbox, told } = found[0]!;
    return [status, removed, sanctions, inbox, told];
  };

  const cases = [
    ["REMOVE", ["RESOLVED", 1, 0, 0, 1]],
    ["WARN", ["RESOLVED", 0, 0, 1, 0]],
    ["MUTE", ["RESOLVED", 0, 1, 0, 1]],
  ] as const;
  for (const [action, expected] of cases)
    it(`is done with its ${action}, or not at all, wherever the process dies`, async () => {
      const id = await aReport();
      const resolve = () =>
        domain.transact((work) => patchReport(work, projectId, id, { status: "RESOLVED", action }));
      let crashes = 0;
      while (await crashing.crashAt(crashes + 1, crashes % 2 === 0, resolve)) {
        crashes += 1;
        assert.deepEqual(await read(), ["IN_REVIEW", 0, 0, 0, 0], `died at ${crashes}`);
      }
      assert.ok(crashes >= 5);
      assert.deepEqual(await read(), expected);
    });
});
