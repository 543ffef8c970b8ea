import { LockMode } from "@mikro-orm/core";
import { forgetKeys } from "../api-keys/authenticate.ts";
import { changeConfig } from "../config-lock.ts";
import { conflict, notFound } from "../errors.ts";
import { isId, newId } from "../ids.ts";
import { offsetOf, type Page, pageOf, type PageQuery } from "../paging.ts";
import type { Work } from "../work.ts";
import { Project, type ProjectSettings, settingsOf } from "./project.ts";
import { forgetProjects } from "./resolve.ts";

export const PROJECTS_PER_TENANT_MAX = 1_000;

export type NewProject = {
  name: string;
  description?: string | null | undefined;
  timezone?: string | undefined;
  settings?: SettingsChange | undefined;
};
export type SettingsChange = { [K in keyof ProjectSettings]?: ProjectSettings[K] | undefined };
export type ProjectChange = { [K in keyof NewProject]?: NewProject[K] | undefined };

export type ShownProject = {
  id: string;
  tenantId: string;
  name: string;
  description: string | null;
  timezone: string;
  settings: ProjectSettings;
  sandboxProjectId: string | null;
  /** Set on a sandbox: the project it belongs to. */
  sandboxOf: string | null;
  createdAt: string;
  updatedAt: string;
};

/** @throws CONFLICT LIMIT_REACHED */
export const createProject = async (work: Work, tenantId: string, body: NewProject): Promise<Project> => {
  const { em, now } = work;
  const count = await em.count(Project, { tenantId, sandboxOf: null, deletedAt: null });
  if (count >= PROJECTS_PER_TENANT_MAX) {
    throw conflict(
      "LIMIT_REACHED",
      `A tenant has at most ${PROJECTS_PER_TENANT_MAX} projects; delete one first`,
    );
  }
  const project = em.create(Project, {
    id: newId(),
    tenantId,
    name: body.name,
    description: body.description ?? null,
    timezone: body.timezone ?? "UTC",
    settings: definedOf(body.settings ?? {}),
    allowedOrigins: [],
    configVersion: 1,
    sandboxOf: null,
    createdAt: now,
    updatedAt: now,
    deletedAt: null,
  });
  work.afterCommit(forgetProjects);
  return project;
};

/** Newest first; sandboxes are not listed. `onlyId` narrows to one project, as for a key. */
export const listProjects = async (
  work: Work,
  { tenantId, onlyId }: { tenantId: string; onlyId?: string },
  page: PageQuery,
): Promise<Page<ShownProject>> => {
  const [projects, total] = await work.em.findAndCount(
    Project,
    { tenantId, sandboxOf: null, deletedAt: null, ...(onlyId === undefined ? {} : { id: onlyId }) },
    { orderBy: [{ createdAt: "desc" }, { id: "desc" }], limit: page.limit, offset: offsetOf(page) },
  );
  return pageOf(await showProjects(work, projects), total, page);
};

/** A project or a sandbox of the tenant. @throws NOT_FOUND also for another tenant's and for a deleted one */
export const getProject = async ({ em }: Work, tenantId: string, projectId: string): Promise<Project> => {
  const project = isId(projectId)
    ? await em.findOne(Project, { id: projectId, tenantId, deletedAt: null })
    : null;
  if (!project) throw notFound("Project");
  return project;
};

/** As `getProject`, held against other changes until the commit. */
export const lockProject = async (work: Work, tenantId: string, projectId: string): Promise<Project> => {
  const project = await getProject(work, tenantId, projectId);
  await work.em.refresh(project, { lockMode: LockMode.PESSIMISTIC_WRITE });
  if (project.deletedAt != null) throw notFound("Project");
  return project;
};

/** Merges `change`: what is absent stays, `description: null` clears. @throws NOT_FOUND */
export const updateProject = async (
  work: Work,
  tenantId: string,
  projectId: string,
  change: ProjectChange,
): Promise<Project> => {
  const { settings, ...plain } = change;
  // Found first: only the tenant's own project may be locked.
  await getProject(work, tenantId, projectId);
  if (settings || change.timezone !== undefined) await changeConfig(work, projectId);
  const project = await lockProject(work, tenantId, projectId);
  Object.assign(project, definedOf(plain), { updatedAt: work.now });
  if (settings) project.settings = { ...project.settings, ...definedOf(settings) };
  work.afterCommit(forgetProjects);
  return project;
};

/**
 * Deletes a project with its sandbox: its keys stop working and its ids answer 404, within 5 s everywhere.
 * The rows stay.
 *
 * @throws NOT_FOUND, CONFLICT INVALID_STATE for a sandbox by itself
 */
export const deleteProject = async (work: Work, tenantId: string, projectId: string): Promise<void> => {
  const { em, now } = work;
  const project = await lockProject(work, tenantId, projectId);
  if (project.sandboxOf != null)
    throw conflict("INVALID_STATE", "A sandbox is deleted together with its project");
  const sandbox = await em.findOne(Project, { sandboxOf: project.id });
  for (const one of sandbox ? [project, sandbox] : [project])
    Object.assign(one, { deletedAt: now, updatedAt: now });
  work.afterCommit(forgetProjects);
  work.afterCommit(forgetKeys);
};

export const showProject = async (work: Work, project: Project): Promise<ShownProject> => {
  const [shown] = await showProjects(work, [project]);
  if (!shown) throw notFound("Project");
  return shown;
};

const showProjects = async ({ em }: Work, projects: Project[]): Promise<ShownProject[]> => {
  const sandboxes = await em.find(Project, { sandboxOf: { $in: projects.map(({ id }) => id) } });
  const sandboxIds = new Map(sandboxes.map(({ id, sandboxOf }) => [sandboxOf, id]));
  return projects.map((project) => ({
    id: project.id,
    tenantId: project.tenantId,
    name: project.name,
    description: project.description ?? null,
    timezone: project.timezone,
    settings: settingsOf(project),
    sandboxProjectId: sandboxIds.get(project.id) ?? null,
    sandboxOf: project.sandboxOf ?? null,
    createdAt: project.createdAt.toISOString(),
    updatedAt: project.updatedAt.toISOString(),
  }));
};

type Defined<T> = { [K in keyof T]?: Exclude<T[K], undefined> };

const definedOf = <T extends object>(change: T): Defined<T> =>
  Object.fromEntries(Object.entries(change).filter(([, value]) => value !== undefined)) as Defined<T>;
