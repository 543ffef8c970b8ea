import assert from "node:assert/strict";
import { sql } from "kysely";
import { globalChannelId } from "../../src/domain/social/chat/channel-row.ts";
import { sendMessages } from "../../src/domain/social/chat/messages.ts";
import { muteBlocked } from "../../src/domain/social/chat/moderation/sanction-changes.ts";
import { reportMessage } from "../../src/domain/social/chat/moderation/report-queue.ts";
import { putWordList } from "../../src/domain/social/chat/moderation/show-sanction.ts";
import type { Domain } from "../support/domain/domain.ts";
import { startDatabase } from "../support/processes/services.ts";

describe("moderation over PostgreSQL", () => {
  let domain: Domain;
  let remove: () => Promise<void>;
  before(async () => {
    ({ domain, remove } = await startDatabase(10));
  });
  after(() => remove());

  const aChannel = async () => {
    const projectId = await domain.addProject();
    const ref = { projectId, channelId: globalChannelId(projectId) };
    const ada = await domain.addPlayer(projectId, "ada");
    const say = async (content: string) => {
      const sending = { actor: { kind: "PLAYER", playerId: ada }, send: { content } } as const;
      const { sent } = await domain.transact((work) => sendMessages(work, ref, [sending]));
      return sent[0]!;
    };
    const count = (from: string, where = "true") =>
      domain.transact(async ({ db }) => {
        const { rows } = await sql<{ n: string }>`
          select count(*) as n from ${sql.table(from)}
          where project_id = ${projectId} and ${sql.raw(where)}`.execute(db);
        return Number(rows[0]!.n);
      });
    return { projectId, ref, ada, say, count };
  };

  it("holds a message once for five players who report it at once, and for four not at all", async () => {
    const { projectId, ref, say, count } = await aChannel();
    for (const reporters of [4, 5, 8]) {
      const sent = await say(`text for ${reporters}`);
      assert.ok("message" in sent);
      const { seq } = sent.message;
      const names = Array.from({ length: reporters }, (_, at) => `p${reporters}-${at}`);
      for (const name of names) await domain.addPlayer(projectId, name);
      const reports = names.map((name) =>
        domain.transact((work) => reportMessage(work, ref, { seq, playerId: `ext:${name}`, reason: "SPAM" })),
      );
      const settled = await Promise.allSettled(reports);
      const made = settled.filter(({ status }) => status === "fulfilled").length;
      assert.equal(made, Math.min(reporters, 5));
      assert.equal(
        await count("chat_messages", `seq = ${seq} and moderation = 'HELD'`),
        reporters < 5 ? 0 : 1,
      );
      const told = `type = 'chat.message_moderated' and (data->>'seq')::int = ${seq}`;
      assert.equal(await count("outbox", told), reporters < 5 ? 0 : 1);
    }
  });

  it("mutes once for blocked messages that are counted at once", async () => {
    const { projectId, ref, ada, count } = await aChannel();
    const sender = { projectId, channelId: ref.channelId, playerId: ada };
    await Promise.all(Array.from({ length: 6 }, () => domain.transact((work) => muteBlocked(work, sender))));
    assert.equal(await count("chat_sanctions"), 1);
    assert.equal(await count("outbox", "type = 'chat.player_sanctioned'"), 1);
  });

  it("judges by the word lists that were committed before, while they change", async () => {
    const { projectId, say } = await aChannel();
    const put = (word: string) =>
      domain.transact((work) =>
        putWordList(work, projectId, "list", { action: "BLOCK", match: "WORD", words: [word] }),
      );
    for (const word of ["alpha", "beta", "gamma", "delta"]) {
      await put(word);
      const refused = await say(`an ${word}`);
      assert.ok("error" in refused && refused.error.reason === "MESSAGE_BLOCKED", word);
      const [, ...during] = await Promise.all([put(`${word}s`), say("one"), say("two")]);
      assert.ok(during.every((sent) => "message" in sent));
      assert.ok("message" in (await say(`an ${word}`)));
    }
  });
});
