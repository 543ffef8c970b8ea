import { z } from "zod";
import {
  archiveDraft,
  createDraft,
  DRAFT_STATUSES,
  duplicateDraft,
  moveDraft,
  patchDraft,
  publishDraft,
  rollbackDraft,
  showDraft,
} from "../../domain/economy/definitions/drafts.ts";
import { getDefinition } from "../../domain/economy/definitions/definitions.ts";
import { listVersions, VERSION_ORDERS } from "../../domain/economy/definitions/versions.ts";
import { questKind } from "../../domain/economy/quests/kind.ts";
import { listQuests, QUEST_ORDERS } from "../../domain/economy/quests/list.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { Quest, questShape } from "../../domain/evaluation/quests/quest.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import type { Json } from "../../domain/kernel/events/events.ts";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../domain/kernel/limits.ts";
import { boundBytes } from "../../domain/kernel/oversize.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { type AnyRoute, route } from "../route.ts";
import { Search, sortedBy, withoutDefault } from "./list-bodies.ts";
import {
  manageQuests as write,
  QuestBody,
  QuestParams,
  QuestVersionBody,
  readQuests as read,
} from "./quest-bodies.ts";

const ListQuery = PageQuery.extend({
  ...sortedBy(QUEST_ORDERS),
  status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  category: z.string().min(1).max(64).optional(),
  tag: z.string().min(1).max(64).optional(),
  adventureKey: Key.optional().meta({ description: "Items of this adventure, as it is published" }),
  search: Search.meta({ description: "Part of the name or key" }),
});

const PatchBody = z
  .strictObject({
    ...Object.fromEntries(
      Object.entries(questShape.shape).map(([name, field]) => [
        name,
        withoutDefault(field as z.ZodType).nullish(),
      ]),
    ),
    draftVersion: z.int().min(1).optional().meta({
      description: "The draft's version that the change is based on; 409 VERSION_CONFLICT if it is another",
    }),
  })
  .meta({ example: { name: "A better name", draftVersion: 1 } });

const MOVES = [
  ["pause", "Pause a quest", "Nobody starts it or gets further; time limits go on."],
  ["resume", "Resume a quest", "It goes on where it was."],
  ["end", "End a quest", "What players have in progress expires, unless `finishAfterEnd` lets them finish."],
] as const;

const moveRoutes: readonly AnyRoute[] = MOVES.map(([move, summary, description]) =>
  route({
    ...write,
    method: "post",
    path: `/quests/{questId}/${move}`,
    id: `${move}Quest`,
    summary,
    description,
    params: QuestParams,
    response: QuestBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await moveDraft(work, questKind, { projectId, ref: params.questId, move });
        return showDraft(found, work.now) as never;
      }),
  }),
);

export const questRoutes: readonly AnyRoute[] = [
  route({
    ...read,
    method: "get",
    path: "/quests",
    isRevalidated: true,
    id: "listQuests",
    summary: "List quests",
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    query: ListQuery,
    response: pageBody(QuestBody),
    run: (app, { projectId, query }) =>
      app.transact(async (work) => {
        const { quests, total } = await listQuests(work, projectId, query);
        return pageOf(quests.map((one) => showDraft(one, work.now)) as never[], total, query);
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/quests",
    id: "createQuest",
    summary: "Create a quest",
    description: "As a DRAFT: players see it once it is published. Its key never changes.",
    body: Quest,
    status: 201,
    response: QuestBody,
    run: (app, { caller, projectId, body: definition }) =>
      app.transact(async (work) => {
        const made = { projectId, definition, createdBy: actorOf(caller) };
        return showDraft(await createDraft(work, questKind, made), work.now) as never;
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/quests/{questId}",
    isRevalidated: true,
    id: "getQuest",
    summary: "Get a quest",
    params: QuestParams,
    response: QuestBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await getDefinition(work, projectId, questKind, params.questId);
        return showDraft(found, work.now) as never;
      }),
  }),
  route({
    ...write,
    method: "patch",
    path: "/quests/{questId}",
    id: "updateQuest",
    summary: "Edit a quest's draft",
    description:
      "Fields that are given replace those that are there, whole; null takes an optional one away, or " +
      "gives it its default back. What players do stays as it is until the draft is published.",
    params: QuestParams,
    body: boundBytes(PatchBody, DEFINITION_MAX_BYTES + PATCH_MORE_BYTES),
    response: QuestBody,
    run: (app, { projectId, params, body }) =>
      app.transact(async (work) => {
        const { draftVersion, ...changes } = body as Json & { draftVersion?: number };
        const patch = { projectId, ref: params.questId, draftVersion, changes };
        return showDraft(await patchDraft(work, questKind, patch), work.now) as never;
      }),
  }),
  route({
    ...write,
    method: "delete",
    path: "/quests/{questId}",
    id: "archiveQuest",
    summary: "Archive a quest",
    description: "A draft, or one that is PAUSED or ENDED; permanent. It keeps its key.",
    params: QuestParams,
    response: QuestBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await archiveDraft(work, questKind, { projectId, ref: params.questId });
        return showDraft(found, work.now) as never;
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/quests/{questId}/publish",
    id: "publishQuest",
    summary: "Publish a quest's draft",
    description:
      "As the next version, effective from the next events on. Names, rewards and prerequisites are " +
      "checked: what is unknown, waits for itself or cannot end is refused. `onVersionChange` decides " +
      "about players in progress; who keeps a version can finish it while it is one of the last six.",
    params: QuestParams,
    response: QuestBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await publishDraft(work, questKind, { projectId, ref: params.questId });
        return showDraft(found, work.now) as never;
      }),
  }),
  ...moveRoutes,
  route({
    ...write,
    method: "post",
    path: "/quests/{questId}/duplicate",
    id: "duplicateQuest",
    summary: "Copy a quest",
    description: "A new DRAFT from its draft; archived ones can be copied too.",
    params: QuestParams,
    body: z
      .strictObject({ key: Key.optional(), name: z.string().min(1).max(100).optional() })
      .meta({ example: { key: "second-week", name: "Your second week" } }),
    status: 201,
    response: QuestBody,
    run: (app, { caller, projectId, params, body }) =>
      app.transact(async (work) => {
        const copy = { projectId, ref: params.questId, ...body, createdBy: actorOf(caller) };
        return showDraft(await duplicateDraft(work, questKind, copy), work.now) as never;
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/quests/{questId}/versions",
    id: "listQuestVersions",
    summary: "List a quest's versions",
    params: QuestParams,
    query: PageQuery.extend(sortedBy(VERSION_ORDERS)),
    response: pageBody(QuestVersionBody),
    run: (app, { projectId, params, query }) =>
      app.transact(async (work) => {
        const found = await getDefinition(work, projectId, questKind, params.questId);
        const { versions, total } = await listVersions(work, found, query);
        return pageOf(versions, total, query);
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/quests/{questId}/rollback",
    id: "rollbackQuest",
    summary: "Publish an earlier version of a quest",
    description: "As the next version. Unpublished edits are dropped.",
    params: QuestParams,
    body: z.strictObject({ version: z.int().min(1) }).meta({ example: { version: 1 } }),
    response: QuestBody,
    run: (app, { projectId, params, body }) =>
      app.transact(async (work) => {
        const found = await rollbackDraft(work, questKind, { projectId, ref: params.questId, ...body });
        return showDraft(found, work.now) as never;
      }),
  }),
];
