import assert from "node:assert/strict";
import { sql } from "kysely";
import { globalChannelId } from "../../src/domain/social/chat/channel-row.ts";
import { sendMessages } from "../../src/domain/social/chat/messages.ts";
import { patchReport } from "../../src/domain/social/chat/moderation/sanction-changes.ts";
import { reportMessage } from "../../src/domain/social/chat/moderation/report-queue.ts";
import { makeCrashing } from "../support/domain/crashing.ts";
import { madeOnce } from "../support/made.ts";
import { memoryDomain } from "../support/domain/memory-domain.ts";

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
    const found = await domain.transact(({ db }) =>
      sql<{ status: string; removed: number; sanctions: number; inbox: number; told: number }>`
        select (select status from chat_reports where ${of}) as status,
          (select count(*)::int from chat_messages where ${of} and moderation = 'REMOVED') as removed,
          (select count(*)::int from chat_sanctions where ${of}) as sanctions,
          (select count(*)::int from inbox_messages where ${of}) as inbox,
          (select count(*)::int from outbox where ${of}
            and type in ('chat.player_sanctioned', 'chat.message_moderated')) as told`.execute(db),
    );
    const { status, removed, sanctions, inbox, told } = found.rows[0]!;
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
