import { z } from "zod";
import { DESIGNERS, EVERY_ROLE } from "../../domain/access.ts";
import { actorOf } from "../../domain/caller.ts";
import { type Definition, showDefinition } from "../../domain/definitions/definition.ts";
import {
  archiveDefinition,
  createDefinition,
  getDefinition,
  listDefinitions,
  patchDefinition,
} from "../../domain/definitions/definitions.ts";
import type { DefinitionKind } from "../../domain/definitions/kind.ts";
import { DEFINITION_KINDS } from "../../domain/definitions/kinds.ts";
import type { Json } from "../../domain/events.ts";
import { pageBody, pageOf, PageQuery } from "../../domain/paging.ts";
import type { Work } from "../../domain/work.ts";
import { type AnyRoute, route } from "../route.ts";

const read = { access: { scope: "config:read", roles: EVERY_ROLE }, project: "caller" } as const;
const write = { access: { scope: "config:manage", roles: DESIGNERS }, project: "caller" } as const;

const ListQuery = PageQuery.extend({
  status: z.enum(["ACTIVE", "ARCHIVED"]).optional().meta({ description: "Default: ACTIVE" }),
  search: z.string().min(1).max(100).optional().meta({ description: "Part of the name or key" }),
});

const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1);

/** What is left out of a change stays as it is; it does not become the default. */
const withoutDefault = (field: z.ZodType): z.ZodType =>
  field instanceof z.ZodDefault ? (field.unwrap() as z.ZodType) : field;

/** The five operations that every kind of definition has. */
const routesOf = (kind: DefinitionKind): AnyRoute[] => {
  const { plural, tag, schema, shape, extra } = kind;
  const name = capital(kind.kind);
  const param = `${kind.kind}Id`;
  const path = `/${plural}/{${param}}`;
  const params = z.object({
    [param]: z
      .string()
      .max(64)
      .meta({ description: `The UUID or the key of the ${kind.kind}` }),
  });
  const refOf = (given: Record<string, string>): string => given[param]!;
  const body = shape
    .extend({
      id: z.uuid(),
      status: z.enum(["ACTIVE", "ARCHIVED"]),
      version: z.int().meta({ description: "Counts the changes" }),
      createdAt: z.iso.datetime(),
      updatedAt: z.iso.datetime(),
      ...extra?.shape,
    })
    .meta({ id: name });
  const patch = z.strictObject({
    ...Object.fromEntries(
      Object.entries(shape.shape).map(([field, one]) => [field, withoutDefault(one as z.ZodType).nullish()]),
    ),
    version: z.int().min(1).optional().meta({ description: "The version that the change is based on" }),
  });
  const showAll = async (work: Work, definitions: readonly Definition[]): Promise<never[]> => {
    const [first] = definitions;
    const keys = definitions.map(({ key }) => key);
    const more = first && extra ? await extra.read(work, first.projectId, keys) : undefined;
    return definitions.map((one) => ({ ...showDefinition(one), ...more?.get(one.key) }) as never);
  };
  const show = async (work: Work, definition: Definition): Promise<never> =>
    (await showAll(work, [definition]))[0]!;
  return [
    route({
      ...read,
      tag,
      method: "get",
      path: `/${plural}`,
      id: `list${capital(plural)}`,
      summary: `List ${plural}`,
      query: ListQuery,
      response: pageBody(body),
      run: (app, { projectId, query }) =>
        app.transact(async (work) => {
          const { definitions, total } = await listDefinitions(work, projectId, kind, query);
          return pageOf(await showAll(work, definitions), total, query);
        }),
    }),
    route({
      ...write,
      tag,
      method: "post",
      path: `/${plural}`,
      id: `create${name}`,
      summary: `Create a ${kind.kind}`,
      description: "It counts from the next events on.",
      body: schema as z.ZodType<never>,
      status: 201,
      response: body,
      run: (app, { caller, projectId, body: definition }) =>
        app.transact(async (work) =>
          show(
            work,
            await createDefinition(work, projectId, kind, { definition, createdBy: actorOf(caller) }),
          ),
        ),
    }),
    route({
      ...read,
      tag,
      method: "get",
      path,
      id: `get${name}`,
      summary: `Get a ${kind.kind}`,
      params,
      response: body,
      run: (app, given) =>
        app.transact(async (work) =>
          show(work, await getDefinition(work, given.projectId, kind, refOf(given.params as never))),
        ),
    }),
    route({
      ...write,
      tag,
      method: "patch",
      path,
      id: `update${name}`,
      summary: `Change a ${kind.kind}`,
      description: "Fields that are given replace those that are there; null takes an optional one away.",
      params,
      body: patch,
      response: body,
      run: (app, given) =>
        app.transact(async (work) => {
          const { version, ...changes } = given.body as Json & { version?: number };
          const ref = refOf(given.params);
          return show(work, await patchDefinition(work, given.projectId, kind, { ref, version, changes }));
        }),
    }),
    route({
      ...write,
      tag,
      method: "delete",
      path,
      id: `archive${name}`,
      summary: `Archive a ${kind.kind}`,
      description: "For good. It keeps its key, and players keep what they hold of it.",
      params,
      response: body,
      run: (app, given) =>
        app.transact(async (work) =>
          show(work, await archiveDefinition(work, given.projectId, kind, refOf(given.params as never))),
        ),
    }),
  ];
};

export const definitionRoutes: readonly AnyRoute[] = DEFINITION_KINDS.flatMap(routesOf);
