"""Where the rows come from: archives fetched by package name, formats, and the data sets the papers used."""
