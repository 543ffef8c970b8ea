import { z } from "zod";
import { DRAFT_STATUSES, publishDraft, showDraft } from "../../domain/economy/definitions/drafts.ts";
import { questKind } from "../../domain/economy/quests/kind.ts";
import { listQuests, QUEST_ORDERS } from "../../domain/economy/quests/list.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { orderQuestBackfill } from "../../domain/rules/insight/recount-players.ts";
import { type AnyRoute } from "../route.ts";
import { draftRoutes } from "./draft-routes.ts";
import { Search, sortedBy } from "./list-bodies.ts";
import { manageQuests as write, QuestBody, QuestVersionBody, readQuests as read } from "./quest-bodies.ts";

const ListQuery = PageQuery.extend({
  ...sortedBy(QUEST_ORDERS),
  status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  category: z.string().min(1).max(64).optional(),
  tag: z.string().min(1).max(64).optional(),
  adventureKey: Key.optional().meta({ description: "Items of this adventure, as it is published" }),
  search: Search.meta({ description: "Part of the name or key" }),
});

const PublishBody = z
  .strictObject({
    backfill: z
      .boolean()
      .optional()
      .meta({
        description:
          "Counts what players did before: a job makes the counters anew that steps of LIFETIME and " +
          "conditions read, and lets players begin and complete the quest by them. Until it is done they " +
          "know of new events only",
      }),
  })
  .meta({ example: { backfill: true } });

const { editing, running } = draftRoutes({
  kind: questKind,
  one: "a quest",
  read,
  write,
  body: QuestBody,
  versionBody: QuestVersionBody,
  moves: {
    pause: "Nobody starts it or gets further; time limits go on.",
    resume: "It goes on where it was.",
    end: "What players have in progress expires, unless `finishAfterEnd` lets them finish.",
  },
  copy: { key: "second-week", name: "Your second week" },
});

export const questRoutes: readonly AnyRoute[] = [
  read.get("/quests", "listQuests", {
    isRevalidated: true,
    summary: "List quests",
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    query: ListQuery,
    response: pageBody(QuestBody),
    run: async (work, { projectId, query }) => {
      const { quests, total } = await listQuests(work, projectId, query);
      return pageOf(quests.map((one) => showDraft(one, work)) as never[], total, query);
    },
  }),
  ...editing,
  write.post("/quests/{questId}/publish", "publishQuest", {
    summary: "Publish a quest's draft",
    description:
      "As the next version, effective from the next events on. Names, rewards and prerequisites are " +
      "checked: what is unknown, waits for itself or cannot end is refused. `onVersionChange` decides " +
      "about players in progress; who keeps a version can finish it while it is one of the last six.",
    body: PublishBody.optional(),
    response: QuestBody.extend({
      backfillJobId: z.uuid().nullable().meta({ description: "See GET /jobs/{jobId}" }),
    }),
    run: async (work, { caller, projectId, params, body }) => {
      const found = await publishDraft(work, questKind, { projectId, ref: params.questId });
      const order = { projectId, quest: found, createdBy: actorOf(caller) };
      const backfillJobId = body?.backfill === true ? await orderQuestBackfill(work, order) : null;
      return { ...showDraft(found, work), backfillJobId } as never;
    },
  }),
  ...running,
];
