-- Operators for every pair of some types, in the schema public, and a function
-- of the store for the types of literals: PostgreSQL prefers them to its own and
-- the store's unless those have exactly the types of the operands. Each counts
-- its calls, which no rollback undoes, and fails.
DO $overloads$
DECLARE
	types text[] := '{oid,regclass,regproc,regprocedure,regrole,integer,bigint,numeric,double precision,text,name,"char",boolean,timestamptz,interval,bit varying}';
	l text;
	r text;
	operator text;
BEGIN
	CREATE SEQUENCE public.called MINVALUE 0 START WITH 0;
	GRANT ALL ON SEQUENCE public.called TO PUBLIC;
	FOREACH l IN ARRAY types LOOP
		FOREACH r IN ARRAY types LOOP
			EXECUTE format('CREATE FUNCTION public.overload(%s, %s) RETURNS boolean LANGUAGE plpgsql AS %L', l, r, format(
				'BEGIN PERFORM nextval(''public.called''); RAISE EXCEPTION ''overload of %s and %s runs as %%'', current_user; END', l, r));
			FOREACH operator IN ARRAY '{=,<>,<,>,<=,>=,+,-,*,||}'::text[] LOOP
				EXECUTE format('CREATE OPERATOR public.%s (LEFTARG = %s, RIGHTARG = %s, FUNCTION = public.overload)', operator, l, r);
			END LOOP;
		END LOOP;
	END LOOP;
	CREATE FUNCTION public.T_NAME_swap(text, integer, text, boolean) RETURNS bigint LANGUAGE plpgsql AS $$
	BEGIN PERFORM nextval('public.called'); RAISE EXCEPTION 'overload of swap runs as %', current_user; END $$;
END $overloads$
