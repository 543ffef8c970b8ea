import { z } from "zod";
import {
  type Definition,
  getDefinition,
  listVersions,
  VERSION_ORDERS,
} from "../../domain/economy/definitions/definitions.ts";
import {
  archiveDraft,
  createDraft,
  DRAFT_STATUSES,
  duplicateDraft,
  moveDraft,
  patchDraft,
  rollbackDraft,
  showDraft,
} from "../../domain/economy/definitions/drafts.ts";
import { type DraftList, listDrafts } from "../../domain/economy/definitions/list-drafts.ts";
import { Key } from "../../domain/evaluation/language/syntax.ts";
import { actorOf } from "../../domain/kernel/caller.ts";
import { pageOf } from "../../domain/kernel/paging.ts";
import type { Work } from "../../domain/kernel/work.ts";
import type { AnyRoute } from "../route.ts";
import {
  capital,
  definitionOperations,
  namesOf,
  type Resource,
  VersionBody,
  type Writing,
} from "./definitions.ts";
import { paged, Search } from "./bodies.ts";

/** A kind of definition with drafts, as the API names and shows it. */
type DraftResource = Resource & {
  list: DraftList<string, never>;
  /** What its list may be asked for besides. */
  filters: z.ZodRawShape;
  /** What pausing, resuming and ending one mean to players. */
  moves: { pause: string; resume: string; end: string };
  /** Example of what a copy is given. */
  copy: { key: string; name: string };
};

const WRITING: Writing = {
  create: createDraft,
  counter: {
    name: "draftVersion",
    description: "The draft's version that the change is based on; 409 VERSION_CONFLICT if it is another",
  },
  update: (work, kind, { count: draftVersion, ...change }) =>
    patchDraft(work, kind, { ...change, draftVersion }),
  archive: archiveDraft,
  summaryOfUpdate: (one) => `Edit ${one}'s draft`,
  texts: {
    create: "As a DRAFT: players see it once it is published. Its key never changes.",
    update: "What players do stays as it is until the draft is published.",
    archive: "A draft, or one that is PAUSED or ENDED; permanent. It keeps its key.",
  },
};

type Common = DraftResource & ReturnType<typeof commonOf>;

const commonOf = (resource: DraftResource) => ({
  ...resource,
  ...namesOf(resource.kind),
  show: async (work: Work, found: Definition) => showDraft(found, work) as never,
});

const listRoute = ({ kind: { plural }, read, body, list, filters }: Common): AnyRoute =>
  read.get(`/${plural}`, `list${capital(plural)}`, {
    isRevalidated: true,
    summary: `List ${plural}`,
    description: "By `sortOrder`, unless sorted otherwise. The fields are those of the drafts.",
    ...paged(body, list.orders, {
      status: z.enum(DRAFT_STATUSES).optional().meta({ description: "Default: all but ARCHIVED" }),
      ...filters,
      search: Search.meta({ description: "Part of the name or key" }),
    }),
    run: async (work, { projectId, query }) => {
      const { drafts, total } = await listDrafts(work, projectId, query as never, list);
      return pageOf(drafts.map((one) => showDraft(one, work)) as never[], total, query);
    },
  });

const moveRoute = (common: Common, move: keyof DraftResource["moves"]): AnyRoute => {
  const { kind, one, name, path, write, body, moves, refOf, show } = common;
  return write.post(`${path}/${move}`, `${move}${name}`, {
    summary: `${capital(move)} ${one}`,
    description: moves[move],
    response: body,
    run: async (work, asked) => show(work, await moveDraft(work, kind, { ...refOf(asked), move })),
  });
};

const duplicateRoute = (common: Common): AnyRoute => {
  const { kind, one, name, path, write, body, copy: example, refOf, show } = common;
  return write.post(`${path}/duplicate`, `duplicate${name}`, {
    summary: `Copy ${one}`,
    description: "A new DRAFT from its draft; archived ones can be copied too.",
    body: z
      .strictObject({ key: Key.optional(), name: z.string().min(1).max(100).optional() })
      .meta({ example }),
    status: 201,
    response: body,
    run: async (work, { caller, body: given, ...asked }) => {
      const copy = { ...refOf(asked), ...given, createdBy: actorOf(caller) };
      return show(work, await duplicateDraft(work, kind, copy));
    },
  });
};

const versionsRoute = ({ kind, one, name, path, read, refOf }: Common): AnyRoute =>
  read.get(`${path}/versions`, `list${name}Versions`, {
    summary: `List ${one}'s versions`,
    ...paged(VersionBody.meta({ id: `${name}Version` }), VERSION_ORDERS, {}),
    run: async (work, { query, ...asked }) => {
      const found = await getDefinition(work, asked.projectId, kind, refOf(asked).ref);
      const { versions, total } = await listVersions(work, found, query);
      return pageOf(versions as never[], total, query);
    },
  });

const rollbackRoute = ({ kind, one, name, path, write, body, refOf, show }: Common): AnyRoute =>
  write.post(`${path}/rollback`, `rollback${name}`, {
    summary: `Publish an earlier version of ${one}`,
    description: "As the next version. Unpublished edits are dropped.",
    body: z.strictObject({ version: z.int().min(1) }).meta({ example: { version: 1 } }),
    response: body,
    run: async (work, { body: given, ...asked }) =>
      show(work, await rollbackDraft(work, kind, { ...refOf(asked), ...given })),
  });

/**
 * The operations that are the same for all kinds with drafts, in the order of the documentation: those that
 * come before publishing, and those that come after it. Publishing is each kind's own.
 */
export const draftRoutes = (
  resource: DraftResource,
): { editing: readonly AnyRoute[]; running: readonly AnyRoute[] } => {
  const common = commonOf(resource);
  return {
    editing: [listRoute(common), ...definitionOperations(common, WRITING)],
    running: [
      moveRoute(common, "pause"),
      moveRoute(common, "resume"),
      moveRoute(common, "end"),
      duplicateRoute(common),
      versionsRoute(common),
      rollbackRoute(common),
    ],
  };
};
