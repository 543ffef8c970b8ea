import { isDeepStrictEqual } from "node:util";
import { conflict, DomainError } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { Work } from "../../kernel/work.ts";
import {
  type ProjectDefinitions,
  shareDefinitions,
  unshareDefinitions,
} from "../../economy/definitions/project-definitions.ts";
import { Definition } from "../../economy/definitions/definition.ts";
import { ARCHIVED_FACTOR, replaceDefinition } from "../../economy/definitions/definitions.ts";
import type { DefinitionKind } from "../../economy/definitions/kind.ts";
import { movePhases } from "../../economy/definitions/phases.ts";
import type { Defined } from "../../evaluation/live.ts";
import { DEFINITION_KINDS } from "../definition-kinds.ts";

type Sync = { from: string; to: string; actor: string };
type Skipped = { kind: string; key: string; reason: string };

/** Number of created, changed or archived definitions, by the plural of their kind, and skipped ones. */
export type SyncedDefinitions = { counts: Record<string, number>; skipped: Skipped[] };

type Syncing = { changed: Set<Pair>; skipped: Skipped[] };

type Pair = { kind: DefinitionKind; source: Definition; own: Definition | undefined };
type OwnPair = Pair & { own: Definition };

const isEnded = ({ source }: Pair): boolean => source.status === "ARCHIVED";

/**
 * Copies the definitions of all kinds from one project to another, by key. Definitions that only the target
 * has stay unchanged, and so do those that are archived there, or whose change would contradict players'
 * holdings. Must be called under the config locks of both.
 * @throws DomainError CONFLICT DEFINITION_LIMIT
 */
export const syncDefinitions = async (work: Work, sync: Sync): Promise<SyncedDefinitions> => {
  const pairs = await readPairs(work, sync);
  const synced: Syncing = { changed: new Set(), skipped: [] };
  // New ones first: changed ones may reference them; archived ones come last.
  for (const pair of pairs.filter(({ own }) => !own)) add(work, sync, { pair, synced });
  await work.em.flush();
  const known = pairs.filter((pair): pair is OwnPair => pair.own !== undefined);
  const [ended, open] = [known.filter(isEnded), known.filter((pair) => !isEnded(pair))];
  const definitions = await shareDefinitions(work, sync.to);
  try {
    for (const pair of open) await change(work, sync, { pair, synced, definitions });
  } finally {
    unshareDefinitions(work, sync.to);
  }
  for (const pair of ended) await end(work, sync, { pair, synced });
  await work.em.flush();
  await copyPhases(work, sync, { pairs, synced });
  for (const kind of DEFINITION_KINDS) await checkRoom(work, sync.to, kind);
  const countOf = ({ kind }: DefinitionKind): number =>
    [...synced.changed].filter((pair) => pair.kind.kind === kind).length;
  const counts = Object.fromEntries(DEFINITION_KINDS.map((kind) => [kind.plural, countOf(kind)]));
  return { counts, skipped: synced.skipped };
};

const readPairs = async ({ em }: Work, { from, to }: Sync): Promise<Pair[]> => {
  const sources = await em.find(Definition, { projectId: from }, { orderBy: { id: "asc" } });
  const owned = await em.find(Definition, { projectId: to });
  const nameOf = ({ kind, key }: Definition): string => `${kind} ${key}`;
  const byName = new Map(owned.map((one) => [nameOf(one), one]));
  return DEFINITION_KINDS.flatMap((kind) =>
    sources
      .filter((source) => source.kind === kind.kind)
      .map((source) => ({ kind, source, own: byName.get(nameOf(source)) })),
  );
};

type Step = { pair: Pair; synced: Syncing };

const counted = ({ pair, synced: { changed } }: Step): void => void changed.add(pair);

/** Quests and adventures that are paused or ended are so in the target, too. */
const copyPhases = async (
  work: Work,
  { to }: Sync,
  { pairs, synced }: { pairs: readonly Pair[]; synced: Syncing },
): Promise<void> => {
  const phased = pairs.flatMap(({ source: { kind, key, status, phase } }) =>
    status === "ACTIVE" && phase ? [{ kind, key, phase }] : [],
  );
  const moved = await movePhases(work, to, phased);
  for (const { kind: name, key, phase } of moved) {
    const pair = pairs.find(({ source }) => source.kind === name && source.key === key)!;
    if (phase === "ENDED") await pair.kind.stopped?.(work, to, [key]);
    counted({ pair, synced });
  }
};

const add = ({ em, now }: Work, { to, actor }: Sync, step: Step): void => {
  const { kind, key, name, definition, status } = step.pair.source;
  if (status !== "ACTIVE") return;
  em.create(Definition, {
    id: newId(),
    projectId: to,
    kind,
    key,
    name,
    definition: structuredClone(definition),
    status,
    version: 1,
    createdBy: actor,
    createdAt: now,
    updatedAt: now,
  });
  counted(step);
};

/** Archives definitions that are archived in the source. */
const end = async (work: Work, { to }: Sync, step: Step & { pair: OwnPair }): Promise<void> => {
  const { own, kind } = step.pair;
  if (own.status === "ARCHIVED") return;
  Object.assign(own, { status: "ARCHIVED", updatedAt: work.now });
  await kind.stopped?.(work, to, [own.key]);
  counted(step);
};

const change = async (
  work: Work,
  { to }: Sync,
  step: Step & { pair: OwnPair; definitions: ProjectDefinitions },
): Promise<void> => {
  const { kind, source, own } = step.pair;
  const skip = (reason: string) => void step.synced.skipped.push({ kind: kind.kind, key: own.key, reason });
  // What is not published stays in its project.
  if (source.status === "DRAFT") return;
  if (own.status === "ARCHIVED") return skip("it is archived in the sandbox");
  if (own.status === "ACTIVE" && isDeepStrictEqual(own.definition, source.definition)) return;
  const definition = structuredClone(source.definition) as Defined;
  const problem = await problemOf(() => kind.check?.(work, to, definition, own.definition as Defined));
  if (problem !== undefined) return skip(problem);
  replaceDefinition(own, definition, work.now);
  own.status = "ACTIVE";
  // The next check reads it there.
  const { id, version } = own;
  step.definitions.put(kind.kind, { id, projectId: to, definition, version, status: "ACTIVE" });
  counted(step);
};

const problemOf = async (check: () => Promise<void> | undefined): Promise<string | undefined> => {
  try {
    await check();
    return undefined;
  } catch (error) {
    if (error instanceof DomainError) return error.message;
    throw error;
  }
};

const checkRoom = async (
  { em }: Work,
  projectId: string,
  { kind, plural, max }: DefinitionKind,
): Promise<void> => {
  const active = await em.count(Definition, { projectId, kind, status: "ACTIVE" });
  const all = await em.count(Definition, { projectId, kind });
  if (active <= max && all <= max * ARCHIVED_FACTOR) return;
  const limits = `${max} ${plural}, and ${max * ARCHIVED_FACTOR} with archived ones`;
  throw conflict("DEFINITION_LIMIT", `together with its own, the sandbox would have more than ${limits}`);
};
