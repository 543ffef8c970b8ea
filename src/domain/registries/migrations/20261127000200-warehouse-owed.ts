import { Migration } from "@mikro-orm/migrations";

/** Files for a warehouse that could not be read, how far erasures have come, and what is forgotten. */
export class Migration20261127000200 extends Migration {
  override up(): void {
    for (const statement of [
      // Erased events that a file may still have, since it could not be read; and when that was tried last.
      `alter table warehouse_parts
        add column owed uuid[],
        add column tried_at timestamptz(3)`,
      `create index warehouse_parts_tried_idx on warehouse_parts (project_id, tried_at)
        where tried_at is not null`,
      // The file up to which all were searched for an erased event.
      `alter table warehouse_changes add column searched bigint not null default 0`,
      // Some of its rows may be deleted already: nobody goes on with it.
      `alter table warehouse_projects add column is_forgotten boolean not null default false`,
    ])
      this.addSql(statement);
  }

  override down(): void {
    this.addSql(`alter table warehouse_projects drop column is_forgotten`);
    this.addSql(`alter table warehouse_changes drop column searched`);
    this.addSql(`alter table warehouse_parts drop column owed, drop column tried_at`);
  }
}
