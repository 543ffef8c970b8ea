import { CACHE_TTL_MS, createShortCache } from "../auth/short-cache.ts";
import type { Caller } from "../../kernel/caller.ts";
import { DomainError, forbidden, notFound, unauthorized } from "../../kernel/errors.ts";
import { isId } from "../../kernel/ids.ts";
import { Tenant } from "../tenants/tenant.ts";
import type { Transact } from "../../kernel/work.ts";
import { Project, settingsOf } from "./project.ts";
import type { ProjectSettings } from "../../evaluation/project-settings.ts";

/** Properties of a project that requests need, at most 5 s old. */
export type KnownProject = {
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
