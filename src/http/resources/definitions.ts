import { z } from "zod";
import { DRAFT_STATUSES } from "../../domain/economy/definitions/drafts.ts";
import { DEFINITION_MAX_BYTES, PATCH_MORE_BYTES } from "../../domain/kernel/limits.ts";
import { boundBytes } from "../../domain/kernel/hostile-json.ts";
import { actorOf, DESIGNERS, EVERY_ROLE } from "../../domain/kernel/caller.ts";
import {
  archiveDefinition,
  createDefinition,
  type Definition,
  DEFINITION_ORDERS,
  type DefinitionKind,
  getDefinition,
  listDefinitions,
  patchDefinition,
  showDefinition,
} from "../../domain/economy/definitions/definitions.ts";
import { DEFINITION_KINDS } from "../../domain/registries/definition-kinds.ts";
import type { Json } from "../../domain/kernel/events/events.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/kernel/paging.ts";
import type { Work } from "../../domain/kernel/work.ts";
import { type AnyRoute, type Group, group, type Owned } from "../route.ts";
import { sortedBy } from "./bodies.ts";

/** `Quest` of `quest`, as in operation ids. */
export const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** A field omitted from a change keeps its value instead of becoming the default. */
const withoutDefault = (field: z.ZodType): z.ZodType =>
  field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : field;

/**
 * The body of a change of a definition: any of its fields, and null for those that are to go.
 * @param counter the field that names the version on which the change is based
 */
export const changeBody = (
  shape: z.ZodObject,
  counter: { name: "version" | "draftVersion"; description: string },
) =>
  boundBytes(
    z
      .strictObject({
        ...Object.fromEntries(
          Object.entries(shape.shape).map(([name, field]) => [
            name,
            withoutDefault(field as z.ZodType).nullish(),
          ]),
        ),
        [counter.name]: z.int().min(1).optional().meta({ description: counter.description }),
      })
      .meta({ example: { name: "A better name", [counter.name]: 1 } }),
    DEFINITION_MAX_BYTES + PATCH_MORE_BYTES,
  );

/** What changes do, as the documentation says of each. */
export const CHANGE_TEXT =
  "Fields that are given replace those that are there, whole; null takes an optional one away, or " +
  "gives it its default back.";

/** A definition as it was published; stored ones may be of an earlier version of the service. */
const Stored = z.record(z.string(), z.unknown());

/**
 * What a definition with drafts is shown with besides its own fields.
 * @param times the fields by which it starts and ends
 */
export const draftFields = (times: string) => ({
  id: z.uuid(),
  status: z.enum(DRAFT_STATUSES).meta({ description: `SCHEDULED and ENDED also follow from ${times}` }),
  draftVersion: z.int().meta({ description: "Counts the edits of the draft" }),
  publishedVersion: z.int().nullable(),
  published: Stored.nullable().meta({ description: "What runs; the other fields are those of the draft" }),
  createdAt: z.iso.datetime(),
  updatedAt: z.iso.datetime(),
});

/** A published version of a definition; a kind names it. */
export const VersionBody = z.object({
  version: z.int(),
  definition: Stored,
  publishedAt: z.iso.datetime(),
  isPublished: z.boolean().meta({ description: "The one that runs" }),
});

const readers = group({ access: { scope: "config:read", roles: EVERY_ROLE }, project: "caller" });
const writers = group({ access: { scope: "config:manage", roles: DESIGNERS }, project: "caller" });

const ListQuery = PageQuery.extend({
  ...sortedBy(DEFINITION_ORDERS),
  status: z.enum(["ACTIVE", "ARCHIVED"]).optional().meta({ description: "Default: ACTIVE" }),
  search: z.string().min(1).max(100).optional().meta({ description: "Part of the name or key" }),
});

/** Properties shared by the operations of a kind. */
type Common = {
  kind: DefinitionKind;
  read: Group<Owned>;
  write: Group<Owned>;
  /** `Badge`, as in operation ids. */
  name: string;
  /** Path of a single definition. */
  path: string;
  /** Returns the UUID or key in a path's `{…Id}`. */
  refOf(params: unknown): string;
  body: z.ZodObject;
  /** Converts definitions to their API form. */
  showAll(work: Work, definitions: readonly Definition[]): Promise<never[]>;
  show(work: Work, definition: Definition): Promise<never>;
};

const showAllOf =
  ({ extra }: DefinitionKind): Common["showAll"] =>
  async (work, definitions) => {
    const [first] = definitions;
    const keys = definitions.map(({ key }) => key);
    const more = first && extra ? await extra.read(work, first.projectId, keys) : undefined;
    return definitions.map((one) => ({ ...showDefinition(one), ...more?.get(one.key) }) as never);
  };

const commonOf = (kind: DefinitionKind): Common => {
  const { plural, tag, shape, extra } = kind;
  const name = capital(kind.kind);
  const param = `${kind.kind}Id`;
  const showAll = showAllOf(kind);
  return {
    kind,
    read: readers.with({ tag }),
    write: writers.with({ tag }),
    name,
    path: `/${plural}/{${param}}`,
    refOf: (params) => (params as Record<string, string>)[param]!,
    body: shape
      .extend({
        id: z.uuid(),
        status: z.enum(["ACTIVE", "ARCHIVED"]),
        version: z.int().meta({ description: "Counts the changes" }),
        createdAt: z.iso.datetime(),
        updatedAt: z.iso.datetime(),
        ...extra?.shape,
      })
      .meta({ id: name }),
    showAll,
    show: async (work, definition) => (await showAll(work, [definition]))[0]!,
  };
};

const listRoute = ({ kind, read, body, showAll }: Common): AnyRoute =>
  read.get(`/${kind.plural}`, `list${capital(kind.plural)}`, {
    isRevalidated: true,
    summary: `List ${kind.plural}`,
    description: "By key.",
    query: ListQuery,
    response: pageBody(body),
    run: async (work, { projectId, query }) => {
      const { definitions, total } = await listDefinitions(work, projectId, kind, query);
      return pageOf(await showAll(work, definitions), total, query);
    },
  });

const createRoute = ({ kind, write, name, body, show }: Common): AnyRoute =>
  write.post(`/${kind.plural}`, `create${name}`, {
    summary: `Create a ${kind.kind}`,
    description: "It counts from the next events on. Its key never changes, and nothing else may have it.",
    body: kind.schema as z.ZodType<never>,
    example: kind.example,
    status: 201,
    response: body,
    run: async (work, { caller, projectId, body: definition }) => {
      const made = { definition, createdBy: actorOf(caller) };
      return show(work, await createDefinition(work, projectId, kind, made));
    },
  });

const getRoute = ({ kind, read, name, path, refOf, body, show }: Common): AnyRoute =>
  read.get(path, `get${name}`, {
    isRevalidated: true,
    summary: `Get a ${kind.kind}`,
    response: body,
    run: async (work, given) =>
      show(work, await getDefinition(work, given.projectId, kind, refOf(given.params))),
  });

const updateRoute = ({ kind, write, name, path, refOf, body, show }: Common): AnyRoute => {
  const changed = changeBody(kind.shape, {
    name: "version",
    description: "The version that the change is based on; 409 VERSION_CONFLICT if it is another",
  });
  return write.patch(path, `update${name}`, {
    summary: `Change a ${kind.kind}`,
    description: `${CHANGE_TEXT} The key cannot change.`,
    body: changed,
    response: body,
    run: async (work, given) => {
      const { version, ...changes } = given.body as Json & { version?: number };
      const ref = refOf(given.params);
      return show(work, await patchDefinition(work, given.projectId, kind, { ref, version, changes }));
    },
  });
};

const archiveRoute = ({ kind, write, name, path, refOf, body, show }: Common): AnyRoute =>
  write.delete(path, `archive${name}`, {
    summary: `Archive a ${kind.kind}`,
    description: "Permanent. It keeps its key, and players keep what they hold of it.",
    response: body,
    run: async (work, given) =>
      show(work, await archiveDefinition(work, given.projectId, kind, refOf(given.params))),
  });

const OPERATIONS = [listRoute, createRoute, getRoute, updateRoute, archiveRoute];

/** The five operations of every kind of definition that has no drafts. */
export const definitionRoutes: readonly AnyRoute[] = DEFINITION_KINDS.filter(({ hasDrafts }) => !hasDrafts)
  .map(commonOf)
  .flatMap((common) => OPERATIONS.map((make) => make(common)));
