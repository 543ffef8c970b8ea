import { Migration } from "@mikro-orm/migrations";

/** The clock of a sandbox, which can be advanced. */
export class Migration20261124000026 extends Migration {
  override up(): void {
    this.addSql(`alter table projects add column clock_ahead_ms bigint not null default 0`);
    this.addSql(`alter table projects add constraint projects_clock_check
      check (clock_ahead_ms = 0 or (clock_ahead_ms > 0 and sandbox_of is not null))`);
    this.addSql(`create index projects_clock_idx on projects (id) where clock_ahead_ms > 0`);
  }

  override down(): void {
    this.addSql(`drop index projects_clock_idx`);
    this.addSql(`alter table projects drop constraint projects_clock_check`);
    this.addSql(`alter table projects drop column clock_ahead_ms`);
  }
}
