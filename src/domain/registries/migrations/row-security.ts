import { ACCOUNTS_ROLE, WEB_ROLE } from "../../kernel/db.ts";

const TENANT = "(select nullif(current_setting('laurel.tenant_id', true), '')::uuid)";

/**
 * A subplan instead of `= any(...)`: that is estimated to match ten projects, and joins by primary key then
 * read the whole table instead.
 */
const IN_PROJECTS = "in (select unnest(nullif(current_setting('laurel.project_ids', true), '')::uuid[]))";

/** Creates the role, and grants it to the connection's own role, where that is missing. */
export const createRole = (role: string): string => `do $$
  begin
    begin
      create role ${role} nologin;
    exception when duplicate_object or unique_violation then null;
    when insufficient_privilege then
      if not exists (select from pg_roles where rolname = '${role}') then
        raise exception 'The database user % may not create roles. As a superuser, run once: '
          'create role ${WEB_ROLE} nologin; create role ${ACCOUNTS_ROLE} nologin; '
          'grant ${WEB_ROLE}, ${ACCOUNTS_ROLE} to %;', current_user, current_user;
      end if;
    end;
    begin
      set local role ${role};
      reset role;
    exception when insufficient_privilege then
      reset role;
      begin
        grant ${role} to current_user;
      exception when insufficient_privilege then
        raise exception 'The database user % may not take on the role ${role}. As a superuser, run once: '
          'grant ${WEB_ROLE}, ${ACCOUNTS_ROLE} to %;', current_user, current_user;
      end;
    end;
  end $$`;

/**
 * What each start makes sure of: another database user, or another server after a restore, has the roles from
 * nobody. A dump that is restored before they are there loses the policies, and every request finds nothing.
 */
export const ROLES_READY: readonly string[] = [
  createRole(WEB_ROLE),
  createRole(ACCOUNTS_ROLE),
  `do $$
  begin
    if not exists (select from pg_policy where polrelid = to_regclass('projects')) then
      raise exception 'Row-level security has no policies, as after a restore without roles. As a superuser, '
        'run: create role ${WEB_ROLE} nologin; create role ${ACCOUNTS_ROLE} nologin; then restore again';
    end if;
  end $$`,
];

const policy = (table: string, role: string, condition: string): string[] => [
  `create policy ${role}_rows on ${table} to ${role} using (${condition})`,
  `grant select, insert, update, delete on ${table} to ${role}`,
];

const enable = (table: string): string => `alter table ${table} enable row level security`;

/** Requests see only the rows of their project. */
export const byProject = (table: string): string[] => [
  enable(table),
  ...policy(table, WEB_ROLE, `project_id ${IN_PROJECTS}`),
];

/**
 * Requests see the row of their project even where they see nothing of its tenant, as rooms do: what a player
 * is shown depends on the project's settings.
 */
export const OWN_PROJECT: readonly string[] = [
  `create policy ${WEB_ROLE}_project on projects for select to ${WEB_ROLE} using (id ${IN_PROJECTS})`,
];

/** Requests see rows of rules that they see. */
export const byRule = (table: string): string[] => [
  enable(table),
  ...policy(table, WEB_ROLE, `exists (select from rules r where r.id = ${table}.rule_id)`),
];

/** Requests see the rows of their tenant, identified by `column`; the accounts role sees all. */
export const byTenant = (table: string, column = "tenant_id"): string[] => [
  enable(table),
  ...policy(table, WEB_ROLE, `${column} = ${TENANT}`),
  ...policy(table, ACCOUNTS_ROLE, "true"),
];

/** Requests of a tenant see nothing; the accounts role sees all. */
export const forAccounts = (table: string): string[] => [
  enable(table),
  ...policy(table, ACCOUNTS_ROLE, "true"),
];

/** As `byProject`, and the accounts role sees all. */
export const byProjectAndAccounts = (table: string): string[] => [
  ...byProject(table),
  ...policy(table, ACCOUNTS_ROLE, "true"),
];
