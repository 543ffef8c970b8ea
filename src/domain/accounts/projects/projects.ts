import { type FilterQuery, LockMode } from "@mikro-orm/core";
import { z } from "zod";
import { sql } from "kysely";
import { forgetKeys } from "../api-keys/api-key.ts";
import { audit } from "../audit/audit.ts";
import { lockTenant, Name, NAME_MAX } from "../tenants/tenant.ts";
import {
  Lives,
  type ProjectSettings,
  settingsFrom,
  SettingsShape,
  Share,
} from "../../evaluation/project-settings.ts";
import { limitsOf, planLimitExceeded } from "../../kernel/caller.ts";
import { conflict, notFound } from "../../kernel/errors.ts";
import { newId } from "../../kernel/ids.ts";
import type { PageQuery } from "../../kernel/paging.ts";
import { containing } from "../../kernel/db.ts";
import { changeConfig, findPage, getRow, type Work } from "../../kernel/work.ts";
import { definedOf, shown } from "../../kernel/json.ts";
import { AllowedOrigins, forgetProjects, Project, settingsOf } from "./project.ts";
import { isIanaName } from "../../kernel/zones.ts";

/** A partial change of settings, with each field of `lives` and `traceSampling` optional. */
export const SettingsPatch = SettingsShape.extend({
  lives: Lives.partial(),
  traceSampling: z.strictObject({ live: Share.optional(), test: Share.optional() }),
}).partial();
export type SettingsPatch = z.output<typeof SettingsPatch>;

/** Merges a change into stored settings: absent fields are unchanged, in `lives` and `traceSampling` too. */
export const mergeSettings = (
  stored: Partial<ProjectSettings>,
  { lives, traceSampling, ...rest }: SettingsPatch,
): Partial<ProjectSettings> => {
  const before = settingsFrom(stored);
  return {
    ...stored,
    ...definedOf(rest),
    ...(lives ? { lives: { ...before.lives, ...definedOf(lives) } } : {}),
    ...(traceSampling ? { traceSampling: { ...before.traceSampling, ...definedOf(traceSampling) } } : {}),
  };
};

/** Maximum projects where the plan has no limit. */
export const PROJECTS_PER_TENANT_MAX = 1_000;

const DESCRIPTION_MAX = 2_000;
export const NewProject = z.object({
  name: Name.meta({ example: "Space Farmers" }),
  description: z.string().max(DESCRIPTION_MAX).nullable().optional(),
  timezone: z
    .string()
    .max(64)
    .refine(isIanaName, "must be an IANA time zone, such as Europe/Berlin")
    .optional()
    .meta({ description: "IANA name; default UTC", example: "Europe/Berlin" }),
  settings: SettingsPatch.optional(),
  allowedOrigins: AllowedOrigins.optional().meta({
    description:
      "Origins whose pages may use the project's keys and rooms; empty: all. Requests without the header " +
      "Origin, as servers send them, are not concerned, and console users neither",
    example: ["https://game.example.com"],
  }),
});
export type NewProject = z.output<typeof NewProject>;
export type ProjectChange = { [K in keyof NewProject]?: NewProject[K] | undefined };

/**
 * Creates a project, serialised for each tenant, so that its limit is exact.
 *
 * @throws PAYMENT_REQUIRED PLAN_LIMIT_EXCEEDED, CONFLICT LIMIT_REACHED
 */
export const createProject = async (work: Work, tenantId: string, body: NewProject): Promise<Project> => {
  const { em, now } = work;
  await checkRoom(work, tenantId);
  const project = em.create(Project, {
    id: newId(),
    tenantId,
    name: body.name,
    description: body.description ?? null,
    timezone: body.timezone ?? "UTC",
    settings: mergeSettings({}, body.settings ?? {}),
    allowedOrigins: body.allowedOrigins ?? [],
    configVersion: 1,
    sandboxOf: null,
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
  });
  await auditProject(work, project, "project.created");
  work.afterCommit(forgetProjects);
  return project;
};

const checkRoom = async (work: Work, tenantId: string): Promise<void> => {
  const { projects: max } = limitsOf(await lockTenant(work, tenantId));
  const count = await work.em.count(Project, { tenantId, sandboxOf: null, deletedAt: null });
  if (max !== null && count >= max) {
    const reached = { metric: "projects", limit: max, used: count } as const;
    throw planLimitExceeded(`Your plan allows ${max} projects; delete one or choose a larger plan`, reached);
  }
  if (count < PROJECTS_PER_TENANT_MAX) return;
  throw conflict(
    "LIMIT_REACHED",
    `A tenant has at most ${PROJECTS_PER_TENANT_MAX} projects; delete one first`,
  );
};

const auditProject = (
  work: Work,
  { id, tenantId, name }: Project,
  action: string,
  data: Record<string, unknown> = {},
): Promise<void> =>
  audit(work, { action, target: { type: "project", id }, tenantId, data: { projectName: name, ...data } });

export const PROJECT_SORTS = ["name", "createdAt", "updatedAt"] as const;
type ListProjects = PageQuery & {
  sort: (typeof PROJECT_SORTS)[number];
  order: "asc" | "desc";
  /** Case-insensitive part of the name. */
  search?: string | undefined;
  include?: "sandboxes" | undefined;
  /** Those that a key may see. */
  onlyIds?: readonly string[] | undefined;
};

/** Returns a page of the tenant's projects, without sandboxes unless they are included. */
export const listProjects = async (work: Work, tenantId: string, query: ListProjects) => {
  const { sort, order, search, include, onlyIds } = query;
  const where: FilterQuery<Project> = {
    tenantId,
    deletedAt: null,
    ...(include === "sandboxes" ? {} : { sandboxOf: null }),
    ...(search === undefined ? {} : { name: { $ilike: containing(search) } }),
    ...(onlyIds === undefined ? {} : { id: { $in: [...onlyIds] } }),
  };
  const orderBy = [{ [sort]: order }, { id: order }];
  const { rows, ...total } = await findPage(work, Project, where, { query, orderBy });
  return { projects: await showProjects(work, rows), ...total };
};

/**
 * Returns a project or sandbox of the tenant. @throws NOT_FOUND also for another tenant's and for a deleted
 * one
 */
export const getProject = (work: Work, tenantId: string, id: string): Promise<Project> =>
  getRow(work, Project, "Project", { id, tenantId, deletedAt: null });

/** As `getProject`, locked until the commit. */
export const lockProject = async (work: Work, tenantId: string, projectId: string): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  await work.em.refresh(project, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (project.deletedAt != null) throw notFound("Project");
  return project;
};

/** Merges `change`: absent fields are unchanged, `description: null` clears. @throws NOT_FOUND */
export const updateProject = async (
  work: Work,
  tenantId: string,
  projectId: string,
  change: ProjectChange,
): Promise<Project> => {
  const { settings, ...plain } = change;
  // Looked up first: only the tenant's own project may be locked.
  const { id } = await getProject(work, tenantId, projectId);
  if (settings || change.timezone !== undefined) await changeConfig(work, id);
  const project = await lockProject(work, tenantId, id);
  Object.assign(project, definedOf(plain), { updatedAt: work.now });
  if (settings) project.settings = mergeSettings(project.settings, settings);
  const { description: _text, ...logged } = definedOf(change);
  await auditProject(work, project, "project.updated", logged);
  work.afterCommit(forgetProjects);
  return project;
};

/**
 * Deletes a project with its sandbox and their webhooks: its keys are rejected and its ids return 404, within
 * 5 s everywhere.
 * The rows are kept.
 *
 * @throws NOT_FOUND, CONFLICT INVALID_STATE for a sandbox
 */
export const deleteProject = async (work: Work, tenantId: string, projectId: string): Promise<void> => {
  const { em, now } = work;
  const project = await lockProject(work, tenantId, projectId);
  if (project.sandboxOf != null)
    throw conflict("INVALID_STATE", "A sandbox is deleted together with its project");
  const sandbox = await em.findOne(Project, { sandboxOf: project.id });
  const both = sandbox ? [project, sandbox] : [project];
  for (const one of both) Object.assign(one, { deletedAt: now, updatedAt: now });
  await endWebhooks(work, { tenantId, projectIds: both.map(({ id }) => id) });
  await auditProject(work, project, "project.deleted");
  work.afterCommit(forgetProjects);
  work.afterCommit(forgetKeys);
};

export const showProject = async (work: Work, project: Project) => {
  const [found] = await showProjects(work, [project]);
  if (!found) throw notFound("Project");
  return found;
};

const showProjects = async ({ em }: Work, projects: Project[]) => {
  const sandboxes = await em.find(Project, { sandboxOf: { $in: projects.map(({ id }) => id) } });
  const sandboxIds = new Map(sandboxes.map(({ id, sandboxOf }) => [sandboxOf, id]));
  return projects.map((project) => ({
    ...shown(project, [
      "id",
      "tenantId",
      "name",
      "description",
      "timezone",
      "allowedOrigins",
      "sandboxOf",
      "createdAt",
      "updatedAt",
    ]),
    settings: settingsOf(project),
    sandboxProjectId: sandboxIds.get(project.id) ?? null,
  }));
};

type Sandbox = { project: Project; sandbox: Project; isNew: boolean };

/**
 * Returns the sandbox of a project, creating it if necessary. @throws NOT_FOUND, CONFLICT INVALID_STATE for a
 * sandbox itself
 */
export const openSandbox = async (work: Work, tenantId: string, projectId: string): Promise<Sandbox> => {
  const project = await getProject(work, tenantId, projectId);
  if (project.sandboxOf != null) {
    throw conflict("INVALID_STATE", `This is the sandbox of project ${project.sandboxOf}; name that one`);
  }
  const sandbox = await lockSandbox(work, project);
  return { project, sandbox, isNew: sandbox.createdAt.getTime() === work.now.getTime() };
};

/**
 * Returns the sandbox of a project, created on demand: a hidden project with its own players, events and
 * definitions, on which test keys act. The project's row is locked, so there is only ever one.
 */
export const lockSandbox = async (work: Work, project: Project): Promise<Project> => {
  const { em, now } = work;
  const owner = await lockProject(work, project.tenantId, project.id);
  const found = await em.findOne(Project, { sandboxOf: owner.id });
  if (found) return found;
  const suffix = " (sandbox)";
  const sandbox = em.create(Project, {
    id: newId(),
    tenantId: owner.tenantId,
    name: [...owner.name].slice(0, NAME_MAX - suffix.length).join("") + suffix,
    description: null,
    timezone: owner.timezone,
    settings: owner.settings,
    allowedOrigins: owner.allowedOrigins,
    configVersion: 1,
    sandboxOf: owner.id,
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
  });
  await em.flush();
  await audit(work, {
    action: "sandbox.created",
    target: { type: "project", id: sandbox.id },
    tenantId: owner.tenantId,
    data: { projectId: owner.id },
  });
  work.afterCommit(forgetProjects);
  return sandbox;
};

/**
 * Deletes webhooks of a tenant, or only those of some of its projects: once committed, nothing is sent to
 * them except deliveries in progress. Past deliveries are deleted when their retention ends.
 */
export const endWebhooks = async (
  { db, now }: Work,
  { tenantId, projectIds }: { tenantId: string; projectIds?: readonly string[] },
): Promise<void> => {
  const at = sql`${now.toISOString()}::timestamptz`;
  const which =
    projectIds === undefined ? sql`true` : sql`project_id = any(${`{${projectIds.join(",")}}`}::uuid[])`;
  await sql`
    update webhooks set deleted_at = ${at}, updated_at = ${at}
    where tenant_id = ${tenantId}::uuid and deleted_at is null and ${which}`.execute(db);
};
