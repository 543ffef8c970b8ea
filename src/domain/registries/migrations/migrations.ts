import { BASELINE, Baseline } from "./baseline.ts";
import { Migration } from "@mikro-orm/migrations";
import { byProject } from "./row-security.ts";

/** The time of a player's first event, where it is before the player was created: events may come late. */
class Migration20261129000101 extends Migration {
  override up(): void {
    this.addSql(`alter table players add first_seen_at timestamptz(3)`);
    this.addSql(`update players set first_seen_at = last_seen_at where last_seen_at < created_at`);
  }

  override down(): void {
    this.addSql(`alter table players drop first_seen_at`);
  }
}

/** How often a mail server has asked to come back: what the operator had to mend does not count. */
class Migration20261129000102 extends Migration {
  override up(): void {
    this.addSql(`alter table email_outbox add refusals int not null default 0`);
  }

  override down(): void {
    this.addSql(`alter table email_outbox drop refusals`);
  }
}

/** Badges and streaks that are edited: what players have reached by then is given by a worker. */
class Migration20261129000103 extends Migration {
  override up(): void {
    for (const statement of [
      `create function note_edited_definition() returns trigger language plpgsql as $$
        begin
          new.ends_changed := true;
          return new;
        end $$`,
      `create trigger definitions_edited before update on definitions for each row
        when (new.kind in ('badge', 'streak') and new.status = 'ACTIVE' and new.version is distinct from old.version)
        execute function note_edited_definition()`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`drop trigger definitions_edited on definitions`);
    this.addSql(`drop function note_edited_definition()`);
    this.addSql(`update definitions set ends_changed = false, ends = null where kind in ('badge', 'streak')`);
  }
}

/** What claims have in hand, committed before they evaluate it, and events that are evaluated apart. */
class Migration20261129000201 extends Migration {
  override up(): void {
    for (const statement of [
      `create table event_claims (
        part smallint not null primary key,
        id uuid not null,
        event_ids uuid[] not null,
        is_evaluating boolean not null,
        asked_at timestamptz(3)) with (fillfactor = 50)`,
      `alter table event_claims enable row level security`,
      `alter table event_q add together smallint`,
      `alter table event_due add together smallint`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`alter table event_due drop together`);
    this.addSql(`alter table event_q drop together`);
    this.addSql(`drop table event_claims`);
  }
}

/** Domains of single sign-on that are given up: of tenants that are gone, and whose record is. */
class Migration20261129000301 extends Migration {
  override up(): void {
    this.addSql(
      `delete from sso_domains d using tenants t where t.id = d.tenant_id and t.deleted_at is not null`,
    );
    this.addSql(`alter table sso_domains add missing_since timestamptz(3)`);
  }

  override down(): void {
    this.addSql(`alter table sso_domains drop missing_since`);
  }
}

/** Players by the beginning of their name or external id, for the search over everything. */
class Migration20261129000401 extends Migration {
  override up(): void {
    this.addSql(
      `create index players_id_prefix_idx on players (project_id, external_user_id text_pattern_ops)`,
    );
    this.addSql(
      `create index players_name_prefix_idx on players (project_id, display_name text_pattern_ops)
        where display_name is not null`,
    );
  }

  override down(): void {
    this.addSql(`drop index players_id_prefix_idx`);
    this.addSql(`drop index players_name_prefix_idx`);
  }
}

/** Local days that are over, added up, so that questions of analytics need not read all history. */
class Migration20261130000101 extends Migration {
  override up(): void {
    this.addSql(
      `create table analytics_closed_days (project_id uuid, calendar text, day int, document bytea not null,
        primary key (project_id, calendar, day))`,
    );
    this.addSql(
      `create table analytics_standings (project_id uuid, calendar text, day int, chunk int,
        document bytea not null, primary key (project_id, calendar, day, chunk))`,
    );
    this.addSql(
      `create table analytics_zones (project_id uuid, timezone text, is_new boolean not null default true,
        primary key (project_id, timezone))`,
    );
    this.addSql(`alter table analytics_rollups add closed_at timestamptz(3)`);
    for (const table of ["analytics_closed_days", "analytics_standings", "analytics_zones"])
      for (const statement of byProject(table)) this.addSql(statement);
  }

  override down(): void {
    for (const table of ["analytics_closed_days", "analytics_standings", "analytics_zones"])
      this.addSql(`drop table ${table}`);
    this.addSql(`alter table analytics_rollups drop closed_at`);
  }
}

/** Addresses and names of people that nothing reads any more: of SCIM, and of the payment provider. */
class Migration20261130000201 extends Migration {
  override up(): void {
    this.addSql(
      `drop table if exists scim_group_members, scim_groups, scim_users, scim_tokens, scim_settings cascade`,
    );
    this.addSql(`alter table billing_customers drop column told_email`);
  }

  override down(): void {
    this.addSql(`alter table billing_customers add told_email text`);
  }
}

/** Every migration, in order. */
export const migrations = [
  { name: BASELINE, class: Baseline },
  { name: "20261129000101-first-seen", class: Migration20261129000101 },
  { name: "20261129000102-mail-refusals", class: Migration20261129000102 },
  { name: "20261129000103-edited-badges", class: Migration20261129000103 },
  { name: "20261129000201-claims-in-hand", class: Migration20261129000201 },
  { name: "20261129000301-missing-records", class: Migration20261129000301 },
  { name: "20261129000401-players-by-prefix", class: Migration20261129000401 },
  { name: "20261130000101-closed-days", class: Migration20261130000101 },
  { name: "20261130000201-unused-addresses", class: Migration20261130000201 },
];
