import { defineEntity, p } from "@mikro-orm/core";
import { z } from "zod";
import { sql } from "kysely";
import { CACHE_TTL_MS, createShortCache } from "../auth/short-cache.ts";
import { Tenant } from "../tenants/tenant.ts";
import { type ProjectSettings, settingsFrom } from "../../evaluation/project-settings.ts";
import type { Caller } from "../../kernel/caller.ts";
import { DomainError, forbidden, notFound, unauthorized } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { atProjectTime, type ProjectClock, type Transact, type Work } from "../../kernel/work.ts";
import { type Read, readWithin, statementOf } from "../../kernel/read.ts";

const ProjectSchema = defineEntity({
  name: "Project",
  tableName: "projects",
  properties: {
    id: p.uuid().primary(),
    tenantId: p.uuid(),
    name: p.text(),
    description: p.text().nullable(),
    /** An IANA name. */
    timezone: p.text(),
    settings: p.json<Partial<ProjectSettings>>(),
    /** Origins whose pages may use the project's keys and sockets; empty allows all. */
    allowedOrigins: p.array(),
    /** Incremented by every change that affects evaluation. */
    configVersion: p.bigint("number"),
    /** Set on a sandbox: the project whose test keys act on it. */
    sandboxOf: p.uuid().nullable(),
    /** How far its clock is ahead of the server's, in ms; not 0 in a sandbox alone. */
    clockAheadMs: p.bigint("number").default(0),
    createdAt: p.datetime(3),
    updatedAt: p.datetime(3),
    deletedAt: p.datetime(3).nullable(),
  },
});

/** A game or an app of a tenant: owns keys, players and definitions. */
export class Project extends ProjectSchema.class {}

ProjectSchema.setClass(Project);

export const settingsOf = (project: Project): ProjectSettings => settingsFrom(project.settings);

/** Properties of a project that requests need, at most 5 s old. */
type KnownProject = {
  id: string;
  tenantId: string;
  timezone: string;
  settings: ProjectSettings;
  allowedOrigins: readonly string[];
  isSandbox: boolean;
  /** Whether its tenant is SUSPENDED. */
  isSuspended: boolean;
};

const byId = createShortCache<KnownProject>();
/** The ids of a tenant's first two projects; cached only where there is exactly one. */
const firstOfTenant = createShortCache<string[]>((ids) => (ids.length === 1 ? CACHE_TTL_MS : 0));

let changes = 0;

/** Incremented by every change of a project in this process: for caches elsewhere. */
export const projectChanges = (): number => changes;

/** Drops this process's cache of projects; see CACHE_TTL_MS. */
export const forgetProjects = (): void => {
  changes++;
  byId.clear();
  firstOfTenant.clear();
};

/**
 * Returns a project or sandbox that is not deleted, nor its tenant, from a cache of 5 s; undefined also for
 * an invalid UUID.
 */
export const findKnownProject = async (
  transact: Transact,
  projectId: string,
): Promise<KnownProject | undefined> => {
  if (!isId(projectId)) return undefined;
  return byId.get(projectId.toLowerCase(), () =>
    transact(async ({ em }) => {
      const project = await em.findOne(Project, { id: projectId, deletedAt: null });
      if (!project) return undefined;
      const { id, tenantId, timezone, allowedOrigins } = project;
      const tenant = await em.findOne(Tenant, { id: tenantId, deletedAt: null });
      if (!tenant) return undefined;
      const isSuspended = tenant.approvalStatus === "SUSPENDED";
      const isSandbox = project.sandboxOf != null;
      return {
        id,
        tenantId,
        timezone,
        settings: settingsOf(project),
        allowedOrigins,
        isSandbox,
        isSuspended,
      };
    }),
  );
};

/**
 * Resolves the project of a request. `requested` is the project of the path, the header `X-Project-ID` or the
 * query. A key acts on its own project; the id of its displayed project is accepted too and means, for a test
 * key, the sandbox.
 *
 * @throws FORBIDDEN PROJECT_MISMATCH (key), NOT_FOUND (user), VALIDATION_ERROR PROJECT_REQUIRED (user with
 * none or several projects), UNAUTHORIZED CREDENTIALS_MISSING
 */
export const resolveProject = async (
  transact: Transact,
  caller: Caller,
  requested?: string,
): Promise<{ projectId: string }> => {
  if (caller.kind !== "user" && caller.kind !== "key")
    throw unauthorized("CREDENTIALS_MISSING", "Credentials of a tenant are required");
  if (caller.kind === "key") {
    if (requested === undefined || isProjectOf(caller, requested)) return { projectId: caller.projectId };
    throw forbidden("PROJECT_MISMATCH", "The API key belongs to another project than the requested one");
  }
  if (requested === undefined) return { projectId: await getOnlyProject(transact, caller.tenantId) };
  const project = await findKnownProject(transact, requested);
  if (project?.tenantId !== caller.tenantId) throw notFound("Project");
  return { projectId: project.id };
};

/**
 * As `resolveProject` for a project in the path, where another project does not exist for the caller: 404 for
 * a key too.
 */
export const resolvePathProject = async (
  transact: Transact,
  caller: Caller,
  projectId: string,
): Promise<{ projectId: string }> => {
  if (!isProjectOf(caller, projectId)) throw notFound("Project");
  return resolveProject(transact, caller, projectId);
};

/** Returns whether a caller may access the id at all; for users the database decides. */
export const isProjectOf = (caller: Caller, projectId: string): boolean =>
  caller.kind !== "key" || [caller.projectId, caller.ownerProjectId].includes(projectId.toLowerCase());

const getOnlyProject = async (transact: Transact, tenantId: string): Promise<string> => {
  const ids = await firstOfTenant.get(tenantId, () =>
    transact(async ({ em }) => {
      const projects = await em.find(Project, { tenantId, sandboxOf: null, deletedAt: null }, { limit: 2 });
      return projects.map(({ id }) => id);
    }),
  );
  const [only, other] = ids ?? [];
  if (only !== undefined && other === undefined) return only;
  const message =
    only === undefined
      ? "There is no project yet; create one with POST /projects and name it in the header X-Project-ID"
      : "Name the project in the header X-Project-ID: the tenant has several";
  throw new DomainError("VALIDATION_ERROR", message, {
    reason: "PROJECT_REQUIRED",
    details: [{ field: "X-Project-ID", message: "is required" }],
  });
};

const ORIGINS_MAX = 50;
const ORIGIN_MAX = 300;

/** Returns whether a text is in the format of the Origin header of browsers. */
const isOrigin = (text: string): boolean =>
  /^https?:[^*]+$/.test(text) && URL.canParse(text) && new URL(text).origin === text;

/** `allowedOrigins` of a project; each once, in the order given. */
export const AllowedOrigins = z
  .array(
    z
      .string()
      .max(ORIGIN_MAX)
      .refine(isOrigin, "must be an origin such as https://game.example.com, no path"),
  )
  .max(ORIGINS_MAX)
  .transform((origins) => [...new Set(origins)]);

/**
 * Rejects pages of other origins if a project restricts them. Only browsers send `Origin`: requests without
 * one, and all requests where the list is empty, are allowed.
 *
 * @throws FORBIDDEN ORIGIN_NOT_ALLOWED
 */
export const checkOrigin = (
  { allowedOrigins }: Pick<KnownProject, "allowedOrigins">,
  origin: string | undefined,
): void => {
  if (origin === undefined || allowedOrigins.length === 0) return;
  if (allowedOrigins.includes(origin)) return;
  throw forbidden(
    "ORIGIN_NOT_ALLOWED",
    "Pages of this origin may not use the project; an OWNER or ADMIN can add it to its allowedOrigins",
  );
};

/** As `checkOrigin`, for a project by id. */
export const checkOriginOf = async (
  transact: Transact,
  projectId: string,
  origin: string | undefined,
): Promise<void> => {
  if (origin === undefined) return;
  const project = await findKnownProject(transact, projectId);
  if (project) checkOrigin(project, origin);
};

type Row = { ahead: number };

/** Returns the clock of a project as it is now; that of the server for one that is not there. */
export const readClock = async (read: Read, projectId: string): Promise<ProjectClock> => {
  const statement = sql`select clock_ahead_ms as ahead from projects where id = ${projectId}::uuid`;
  const [row] = await read<Row>(statementOf(statement));
  return { clockAheadMs: row?.ahead ?? 0 };
};

/** Returns the same transaction at the time of a project. */
export const inProjectTime = async (work: Work, projectId: string): Promise<Work> =>
  atProjectTime(work, await readClock(readWithin(work), projectId));
