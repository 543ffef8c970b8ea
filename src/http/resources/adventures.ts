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
import { adventureKind } from "../../domain/economy/adventures/kind.ts";
import { listAdventures, ADVENTURE_ORDERS } from "../../domain/economy/adventures/list.ts";
import { readAdventureStats } from "../../domain/economy/adventures/stats.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { Adventure, adventureShape } from "../../domain/evaluation/adventures/adventure.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import type { Json } from "../../domain/kernel/events/events.ts";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../domain/kernel/limits.ts";
import { boundBytes } from "../../domain/kernel/oversize.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import { type AnyRoute, route } from "../route.ts";
import { Search, sortedBy, withoutDefault } from "./list-bodies.ts";
import {
  manageAdventures as write,
  AdventureBody,
  AdventureParams,
  AdventureStatsBody,
  AdventureVersionBody,
  readAdventures as read,
} from "./adventure-bodies.ts";

const ListQuery = PageQuery.extend({
  ...sortedBy(ADVENTURE_ORDERS),
  status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
  season: z.string().min(1).max(64).optional(),
  questKey: Key.optional().meta({ description: "Those of which this quest is an item" }),
  search: Search.meta({ description: "Part of the name or key" }),
});

const PatchBody = z
  .strictObject({
    ...Object.fromEntries(
      Object.entries(adventureShape.shape).map(([name, field]) => [
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
  [
    "pause",
    "Pause an adventure",
    "Nobody joins it or gets further, and its quests cannot be started; its end stays.",
  ],
  ["resume", "Resume an adventure", "It goes on where it was."],
  [
    "end",
    "End an adventure",
    "What players have in progress expires; what they have reached can be claimed until `claimUntil`.",
  ],
] as const;

const moveRoutes: readonly AnyRoute[] = MOVES.map(([move, summary, description]) =>
  route({
    ...write,
    method: "post",
    path: `/adventures/{adventureId}/${move}`,
    id: `${move}Adventure`,
    summary,
    description,
    params: AdventureParams,
    response: AdventureBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await moveDraft(work, adventureKind, { projectId, ref: params.adventureId, move });
        return showDraft(found, work.now) as never;
      }),
  }),
);

export const adventureRoutes: readonly AnyRoute[] = [
  route({
    ...read,
    method: "get",
    path: "/adventures",
    isRevalidated: true,
    id: "listAdventures",
    summary: "List adventures",
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    query: ListQuery,
    response: pageBody(AdventureBody),
    run: (app, { projectId, query }) =>
      app.transact(async (work) => {
        const { adventures, total } = await listAdventures(work, projectId, query);
        return pageOf(adventures.map((one) => showDraft(one, work.now)) as never[], total, query);
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/adventures",
    id: "createAdventure",
    summary: "Create an adventure",
    description: "As a DRAFT: players see it once it is published. Its key never changes.",
    body: Adventure,
    status: 201,
    response: AdventureBody,
    run: (app, { caller, projectId, body: definition }) =>
      app.transact(async (work) => {
        const made = { projectId, definition, createdBy: actorOf(caller) };
        return showDraft(await createDraft(work, adventureKind, made), work.now) as never;
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/adventures/{adventureId}",
    isRevalidated: true,
    id: "getAdventure",
    summary: "Get an adventure",
    params: AdventureParams,
    response: AdventureBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await getDefinition(work, projectId, adventureKind, params.adventureId);
        return showDraft(found, work.now) as never;
      }),
  }),
  route({
    ...write,
    method: "patch",
    path: "/adventures/{adventureId}",
    id: "updateAdventure",
    summary: "Edit an adventure's draft",
    description:
      "Fields that are given replace those that are there, whole; null takes an optional one away, or " +
      "gives it its default back. What players do stays as it is until the draft is published.",
    params: AdventureParams,
    body: boundBytes(PatchBody, DEFINITION_MAX_BYTES + PATCH_MORE_BYTES),
    response: AdventureBody,
    run: (app, { projectId, params, body }) =>
      app.transact(async (work) => {
        const { draftVersion, ...changes } = body as Json & { draftVersion?: number };
        const patch = { projectId, ref: params.adventureId, draftVersion, changes };
        return showDraft(await patchDraft(work, adventureKind, patch), work.now) as never;
      }),
  }),
  route({
    ...write,
    method: "delete",
    path: "/adventures/{adventureId}",
    id: "archiveAdventure",
    summary: "Archive an adventure",
    description: "A draft, or one that is PAUSED or ENDED; permanent. It keeps its key.",
    params: AdventureParams,
    response: AdventureBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await archiveDraft(work, adventureKind, { projectId, ref: params.adventureId });
        return showDraft(found, work.now) as never;
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/adventures/{adventureId}/publish",
    id: "publishAdventure",
    summary: "Publish an adventure's draft",
    description:
      "As the next version, effective from the next events on, also for players in progress: what they " +
      "have done, reached and claimed stays. Names and rewards are checked: what is unknown, waits for " +
      "itself or cannot end is refused. From then on its quests are open only through it.",
    params: AdventureParams,
    response: AdventureBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await publishDraft(work, adventureKind, { projectId, ref: params.adventureId });
        return showDraft(found, work.now) as never;
      }),
  }),
  ...moveRoutes,
  route({
    ...write,
    method: "post",
    path: "/adventures/{adventureId}/duplicate",
    id: "duplicateAdventure",
    summary: "Copy an adventure",
    description: "A new DRAFT from its draft; archived ones can be copied too.",
    params: AdventureParams,
    body: z
      .strictObject({ key: Key.optional(), name: z.string().min(1).max(100).optional() })
      .meta({ example: { key: "spring", name: "Spring season" } }),
    status: 201,
    response: AdventureBody,
    run: (app, { caller, projectId, params, body }) =>
      app.transact(async (work) => {
        const copy = { projectId, ref: params.adventureId, ...body, createdBy: actorOf(caller) };
        return showDraft(await duplicateDraft(work, adventureKind, copy), work.now) as never;
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/adventures/{adventureId}/versions",
    id: "listAdventureVersions",
    summary: "List an adventure's versions",
    params: AdventureParams,
    query: PageQuery.extend(sortedBy(VERSION_ORDERS)),
    response: pageBody(AdventureVersionBody),
    run: (app, { projectId, params, query }) =>
      app.transact(async (work) => {
        const found = await getDefinition(work, projectId, adventureKind, params.adventureId);
        const { versions, total } = await listVersions(work, found, query);
        return pageOf(versions, total, query);
      }),
  }),
  route({
    ...write,
    method: "post",
    path: "/adventures/{adventureId}/rollback",
    id: "rollbackAdventure",
    summary: "Publish an earlier version of an adventure",
    description: "As the next version. Unpublished edits are dropped.",
    params: AdventureParams,
    body: z.strictObject({ version: z.int().min(1) }).meta({ example: { version: 1 } }),
    response: AdventureBody,
    run: (app, { projectId, params, body }) =>
      app.transact(async (work) => {
        const found = await rollbackDraft(work, adventureKind, {
          projectId,
          ref: params.adventureId,
          ...body,
        });
        return showDraft(found, work.now) as never;
      }),
  }),
  route({
    ...read,
    method: "get",
    path: "/adventures/{adventureId}/stats",
    id: "getAdventureStats",
    summary: "Get statistics of an adventure",
    description: "How far players have come: items and tiers of the draft.",
    params: AdventureParams,
    response: AdventureStatsBody,
    run: (app, { projectId, params }) =>
      app.transact(async (work) => {
        const found = await getDefinition(work, projectId, adventureKind, params.adventureId);
        return readAdventureStats(work, found);
      }),
  }),
];
