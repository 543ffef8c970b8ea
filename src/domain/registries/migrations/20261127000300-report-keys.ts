import { Migration } from "@mikro-orm/migrations";

/**
 * Keys of saved reports, by which a configuration names them in every project: made of the name, and left a
 * UUID where two reports of a project have names alike.
 */
export class Migration20261127000300 extends Migration {
  override up(): void {
    // An older process that still runs makes reports without a key.
    this.addSql(`alter table analytics_reports add column key text not null default gen_random_uuid()::text`);
    this.addSql(`
      update analytics_reports r set key = n.slug from (
        select project_id, id, slug, row_number() over (partition by project_id, slug order by id) as place
        from (select project_id, id,
            left(trim(both '-' from regexp_replace(lower(name), '[^a-z0-9]+', '-', 'g')), 60) as slug
          from analytics_reports) named
        where slug <> '') n
      where r.project_id = n.project_id and r.id = n.id and n.place = 1`);
    this.addSql(`create unique index analytics_reports_key on analytics_reports (project_id, key)`);
  }

  override down(): void {
    this.addSql(`alter table analytics_reports drop column key`);
  }
}
