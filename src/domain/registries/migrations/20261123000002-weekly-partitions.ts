import { Migration } from "@mikro-orm/migrations";
import { ACCOUNTS_ROLE, WEB_ROLE } from "../../kernel/row-roles.ts";
import { byProject } from "./row-security.ts";

/** A table, its key, and its other indexes: in the whole table, or only in each partition. */
type Split = {
  table: string;
  key: string;
  indexes: readonly [name: string, on: string][];
  own: readonly [name: string, on: string][];
};

const TABLES: readonly Split[] = [
  {
    table: "outbox",
    key: "project_id, id",
    indexes: [
      ["outbox_event_idx", "(project_id, event_id) where event_id is not null"],
      ["outbox_silent_idx", "(project_id, player_id) where player_seq is null and player_id is not null"],
    ],
    own: [["player_key", "(project_id, player_id, player_seq) where player_seq is not null"]],
  },
  {
    table: "rule_executions",
    key: "project_id, rule_id, id",
    indexes: [
      ["rule_executions_event_idx", "(project_id, event_id)"],
      ["rule_executions_player_idx", "(project_id, player_id) where effects is not null"],
    ],
    own: [],
  },
];

/**
 * Partitions the outbox and executions by week, so that what is no longer kept is dropped. Existing rows stay
 * where they are: their table becomes the first partition, which lasts until the week of tomorrow, or of the
 * newest row if that is later, has ended. Until then it takes the new rows too, so processes of the previous
 * version notice nothing. Attaching it reads the table twice; work on it waits meanwhile.
 */
export class Migration20261123000002 extends Migration {
  override up(): void {
    for (const split of TABLES) for (const statement of divide(split)) this.addSql(statement);
  }

  override down(): void {
    for (const split of TABLES) for (const statement of unite(split)) this.addSql(statement);
  }
}

const divide = ({ table, key, indexes, own }: Split): string[] => {
  const before = `${table}_before`;
  return [
    `alter table ${table} rename to ${before}`,
    `alter index ${table}_pkey rename to ${before}_pkey`,
    ...indexes.map(([name]) => `alter index ${name} rename to ${name.replace(table, before)}`),
    ...own.map(([name]) => `alter index ${table}_${name} rename to ${before}_${name}`),
    `drop policy ${WEB_ROLE}_rows on ${before}`,
    `revoke all on ${before} from ${WEB_ROLE}, ${ACCOUNTS_ROLE}`,
    `alter table ${before} disable row level security`,
    `create table ${table} (like ${before} including defaults including constraints)
      partition by range (id)`,
    `alter table ${table} add primary key (${key})`,
    ...indexes.map(([name, on]) => `create index ${name} on ${table} ${on}`),
    `create table ${table}_default partition of ${table} default`,
    ...own.map(([name, on]) => `create unique index ${table}_default_${name} on ${table}_default ${on}`),
    attach(table, before),
    ...byProject(table),
  ];
};

/**
 * Weeks begin as those of the other partitions do, counted from 1970. Ids begin with their time in ms; the
 * newest may be ahead where the database's clock was.
 */
const attach = (table: string, before: string): string => `do $$
  declare
    newest uuid := (select id from ${before} order by id desc limit 1);
    newest_ms bigint := coalesce(('x' || left(replace(newest::text, '-', ''), 12))::bit(48)::bigint, 0);
    last_seconds numeric := greatest(extract(epoch from now()) + 86400, newest_ms / 1000);
    upto text := lpad(to_hex((floor(last_seconds / 604800)::bigint + 1) * 604800000), 12, '0');
  begin
    execute format('alter table ${table} attach partition ${before} for values from (minvalue) to (%L)',
      rpad(upto, 32, '0')::uuid);
  end $$`;

/** The lock comes first: a row that another commits after the copy has begun would go with the old table. */
const unite = ({ table, key, indexes, own }: Split): string[] => [
  `lock table ${table} in access exclusive mode`,
  `create table ${table}_whole (like ${table} including defaults including constraints)`,
  `insert into ${table}_whole select * from ${table}`,
  `alter table ${table}_whole add primary key (${key})`,
  `drop table ${table}`,
  `alter table ${table}_whole rename to ${table}`,
  `alter index ${table}_whole_pkey rename to ${table}_pkey`,
  ...indexes.map(([name, on]) => `create index ${name} on ${table} ${on}`),
  ...own.map(([name, on]) => `create unique index ${table}_${name} on ${table} ${on}`),
  ...byProject(table),
];
