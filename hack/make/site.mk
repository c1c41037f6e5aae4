# The documentation as a static site. It needs npm, which no other target does, so that it is no part of `make test`: that checks the
# links of all pages (hack/house).

.PHONY: site
site: ## Build the site of the documentation in build/site/html, with npm; it fails where a link leads to no page.
	@command -v npm >/dev/null || { echo 'site: npm is missing (Debian: apt-get install npm)' >&2; exit 1; }
	@mkdir -p build/site && find build/site -mindepth 1 -maxdepth 1 ! -name node_modules -exec rm -rf {} +
	@git ls-files -z --cached --others --exclude-standard -- '*.md' 'docs/*.svg' | tar --null --files-from=- -cf - | tar -C build/site -xf -
	@cp -R hack/site/. build/site/
	cd build/site && npm ci --no-audit --no-fund && npx vitepress build
